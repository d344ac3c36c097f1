/** Reads every node and every Host, after a check of the required permissions. */

import { randomUUID } from "node:crypto";
import {
  fitProbePod,
  isStaleProbePod,
  PROBE_LABELS,
  type ProbeEnd,
  probeFailed,
  probeNodeFailure,
} from "../../controller/pods/workload/one-shot-pod.ts";
import { nearestNames } from "../../fitness/catalog/match.ts";
import type { CatalogRecord } from "../../fitness/catalog/record.ts";
import { machineFromHost } from "../../fitness/density/place.ts";
import { MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import { ACCESS_REVIEWS, DEPLOYMENTS, NODES, PODS } from "../../src/kube/kinds.ts";
import type { AccessReview } from "../../src/kube/objects.ts";
import type { Kind, KubeObject } from "../../src/kube/types.ts";
import type { Node, PodSpec } from "../../src/kube/workload-objects.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { explainAttempt, unwrapResult } from "../cluster/failure.ts";
import { listAll } from "../cluster/find.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { findController, runProbePod } from "../cluster/probe.ts";
import { forEachConcurrently } from "../program/concurrently.ts";
import {
  hostResult,
  matchingRecords,
  nodeResult,
  type RankPayload,
  type RankRequest,
  rankPayload,
} from "./rank.ts";

export interface ClusterFitOptions extends RankRequest, Pick<ClusterFlags, "namespace"> {
  /** Time limit for one pod, in ms. */
  readonly timeout: number;
  readonly concurrency: number;
  readonly probeImage?: string;
  readonly signal: AbortSignal;
}

/** Undefined if the user stopped the command. Throws ApiForbidden, CatalogModelUnknown, NoProbeImage. */
export async function clusterFit(
  cluster: Cluster,
  records: readonly CatalogRecord[],
  options: ClusterFitOptions,
): Promise<RankPayload | undefined> {
  const { signal, namespace = NAMESPACE_SYSTEM } = options;
  const matching = matchingRecords(records, options.model);
  if (matching.size === 0) throw unknownModel(records, options.model);
  await requireRights(cluster, namespace, options.probeImage === undefined ? [...RIGHTS, OF_IMAGE] : RIGHTS);
  const [nodes, hosts] = await Promise.all([listAll(cluster, NODES), listHosts(cluster)]);
  const ends = await probeNodes(cluster, nodes, { ...options, namespace });
  if (signal.aborted) return undefined;
  const results = [
    ...nodes.map((node) => {
      const end = ends.get(node.metadata.name) ?? probeFailed("NotProbed", "the node was not probed");
      return nodeResult(node, end, records, matching, options);
    }),
    ...hosts.map((host) => hostResult(machineFromHost(host), records, matching, options)),
  ];
  return rankPayload(results, options);
}

function unknownModel(records: readonly CatalogRecord[], model: string): MetalbridgeError {
  const nearest = nearestNames(records, model).join(", ");
  return new MetalbridgeError(
    "CatalogModelUnknown",
    `${model.slice(0, 128)} is not in the catalog${nearest === "" ? "" : `; nearest are ${nearest}`}`,
    remedyOf("CatalogModelUnknown", { words: model.slice(0, 128) }),
  );
}

/** A cluster without Metalbridge has no Hosts. */
async function listHosts({ client }: Cluster): Promise<readonly Host[]> {
  const found = await client.list(HOSTS);
  if (found.ok) return found.value.items;
  if (found.error.kind === "notFound") return [];
  throw explainAttempt({ verb: "list", kind: HOSTS }, found.error);
}

type Right = readonly [Kind<KubeObject>, readonly string[]];

const RIGHTS: readonly Right[] = [
  [NODES, ["list", "get"]],
  [PODS, ["create", "list", "get", "delete"]],
  [HOSTS, ["list"]],
];
/** The probe pods run the controller's image. */
const OF_IMAGE: Right = [DEPLOYMENTS, ["list"]];

/** Reports all missing permissions at once, before the first pod is created. */
async function requireRights(
  { client }: Cluster,
  namespace: string,
  rights: readonly Right[],
): Promise<void> {
  const reviews = rights.flatMap(([kind, verbs]) => verbs.map((verb) => ({ kind, verb })));
  const missing = await Promise.all(
    reviews.map(async ({ kind, verb }) => {
      const { group, plural: resource, namespaced } = kind;
      const place = namespaced ? { namespace } : {};
      const spec = { resourceAttributes: { group, resource, verb, ...place } };
      const review: AccessReview = { metadata: { name: "" }, spec };
      const { status } = unwrapResult(
        { verb: "create", kind: ACCESS_REVIEWS },
        await client.create(ACCESS_REVIEWS, review),
      );
      return status?.allowed === true ? [] : [`${verb} ${resource}${namespaced ? ` in ${namespace}` : ""}`];
    }),
  );
  const all = missing.flat();
  if (all.length === 0) return;
  throw new MetalbridgeError("ApiForbidden", `the credential may not ${all.join(", ")}`, {
    summary: "use a credential with the rights of examples/rbac/cluster-fit.yaml, or grant them",
    command: "kubectl apply -f examples/rbac/cluster-fit.yaml",
  });
}

type ProbeImage = { readonly image: string; readonly pullSecrets: NonNullable<PodSpec["imagePullSecrets"]> };

async function imageFor(cluster: Cluster, namespace: string, given: string | undefined): Promise<ProbeImage> {
  const found =
    given === undefined ? await findController(cluster, namespace) : { image: given, pullSecrets: [] };
  if (found !== undefined) return found;
  throw new MetalbridgeError(
    "NoProbeImage",
    `namespace ${namespace} has no controller with an image to use`,
    {
      summary: "pass an image of metalbridge that the nodes can pull, or the namespace of the controller",
      command: "metalbridge cluster-fit --namespace metalbridge-system",
    },
  );
}

/** The results by node, until the user stops the command: a limited number of pods at once, and all deleted at the end. */
async function probeNodes(
  cluster: Cluster,
  nodes: readonly Node[],
  { namespace, concurrency, timeout, probeImage, signal }: ClusterFitOptions & { readonly namespace: string },
): Promise<ReadonlyMap<string, ProbeEnd>> {
  const ends = new Map<string, ProbeEnd>();
  if (nodes.length === 0) return ends;
  const { image, pullSecrets } = await imageFor(cluster, namespace, probeImage);
  await removeLeftovers(cluster, namespace);
  const run = randomUUID().slice(0, 8);
  const probeNode = async (index: number, node: Node): Promise<ProbeEnd | undefined> => {
    const known = probeNodeFailure(node);
    if (known !== undefined) return known;
    const { name } = node.metadata;
    const deadlineSeconds = Math.max(1, Math.ceil(timeout / 1_000));
    const ref = { name: `metalbridge-fit-${run}-${index}`, namespace };
    const pod = fitProbePod({ ...ref, node: name, image, pullSecrets, deadlineSeconds });
    const nodeFailure = async () => {
      const found = await cluster.client.get(NODES, { name });
      if (found.ok) return probeNodeFailure(found.value);
      return found.error.kind === "notFound" ? probeNodeFailure(undefined) : undefined;
    };
    const ran = await runProbePod(cluster, pod, { signal, limitMs: timeout, nodeFailure });
    return ran.ok ? ran.value : probeFailed(ran.error.reason, ran.error.message);
  };
  const work = async ([index, node]: [number, Node]): Promise<void> => {
    const end = signal.aborted ? undefined : await probeNode(index, node);
    if (end !== undefined) ends.set(node.metadata.name, end);
  };
  await forEachConcurrently(nodes.entries(), work, concurrency);
  return ends;
}

/** Deletes pods of killed runs. They stop at their deadline, but nothing else deletes them. */
async function removeLeftovers({ client, connection }: Cluster, namespace: string): Promise<void> {
  const labelSelector = `app.kubernetes.io/name=${PROBE_LABELS["app.kubernetes.io/name"]}`;
  const found = await client.list(PODS, { namespace, labelSelector });
  if (!found.ok) return;
  const nowMs = Date.now() + (connection.serverAheadMs() ?? 0);
  const left = found.value.items.filter((pod) => isStaleProbePod(pod, nowMs));
  await Promise.all(left.map(({ metadata: { name } }) => client.remove(PODS, { name, namespace })));
}
