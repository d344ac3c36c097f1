/** Reads every node and every Host, after a check of the required permissions. */

import { probeFailed } from "../../controller/workload/one-shot-pod.ts";
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
import type { Deployment } from "../../src/kube/workload-objects.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { explainAttempt, unwrapResult } from "../cluster/failure.ts";
import { listAll } from "../cluster/find.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { CONTROLLER } from "../doctor/from-cluster.ts";
import { type FitProbeResults, type ProbeOptions, probeNodes } from "./probe.ts";
import {
  hostResult,
  matchingRecords,
  nodeResult,
  type RankPayload,
  type RankRequest,
  rankPayload,
} from "./rank.ts";

export interface ClusterFitOptions extends RankRequest, Pick<ClusterFlags, "namespace"> {
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
  let ends: FitProbeResults | undefined = new Map();
  if (nodes.length > 0) {
    const image = await imageFor(cluster, namespace, options.probeImage);
    const { concurrency, timeout: timeoutMs } = options;
    ends = await probeNodes(cluster, nodes, { ...image, namespace, concurrency, timeoutMs, signal });
  }
  if (ends === undefined) return undefined;
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
  [NODES, ["list", "watch"]],
  [PODS, ["create", "list", "watch", "delete"]],
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

async function imageFor(
  cluster: Cluster,
  namespace: string,
  given: string | undefined,
): Promise<Pick<ProbeOptions, "image" | "pullSecrets">> {
  if (given !== undefined) return { image: given, pullSecrets: [] };
  const found = await listAll<Deployment>(cluster, DEPLOYMENTS, { namespace, labelSelector: CONTROLLER });
  const spec = found[0]?.spec.template.spec;
  const image = spec?.containers[0]?.image;
  if (image === undefined)
    throw new MetalbridgeError(
      "NoProbeImage",
      `namespace ${namespace} has no controller with an image to use`,
      {
        summary: "pass an image of metalbridge that the nodes can pull, or the namespace of the controller",
        command: "metalbridge cluster-fit --namespace metalbridge-system",
      },
    );
  return { image, pullSecrets: spec?.imagePullSecrets ?? [] };
}
