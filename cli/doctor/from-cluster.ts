/** `metalbridge doctor --from-cluster HOST`: checks from a pod whether the cluster reaches the ports of a host. */

import { randomUUID } from "node:crypto";
import { defaultRemedy, MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import { LABEL_HOST } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import type { CheckResult } from "../../src/doctor/checks/check.ts";
import { DEPLOYMENTS, ENDPOINT_SLICES, PODS } from "../../src/kube/kinds.ts";
import type { Deployment } from "../../src/kube/workload-objects.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { unwrapResult } from "../cluster/failure.ts";
import { findObject, listAll } from "../cluster/find.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { follow } from "../cluster/follow.ts";
import { readyEndpoints } from "../endpoint/target.ts";
import { removeOne } from "../host/access.ts";
import { listenForStop } from "../program/stop-signals.ts";
import { probePod, type ReachProbeResult, readProbe } from "./probe-pod.ts";
import type { DoctorReport } from "./render.ts";

export interface ProbeFlags extends ClusterFlags {
  /** Must contain Node. Absent: the image of the controller. */
  readonly image?: string;
  readonly timeout?: number;
}

/** Includes the time to pull the image. */
const TIMEOUT_MS = 60_000;
/** Port to probe on a host that serves nothing: a refused connection proves that the host is reachable. */
const ANY_PORT = 21_000;
export const CONTROLLER = "app.kubernetes.io/name=metalbridge,app.kubernetes.io/component=controller";
const CODE = "HostUnreachableFromCluster";

/** Creates a pod, and always deletes it. Throws HostNotFound, AddressUnknown or NoProbeImage. */
export async function probeFromCluster(name: string, flags: ProbeFlags): Promise<DoctorReport> {
  return withCluster("doctor", flags, async (cluster) => {
    const startMs = performance.now();
    const host = await findObject(cluster, HOSTS, name);
    const served = await servedBy(cluster, name);
    const targets = served.length > 0 ? served : addressesOf(host);
    const { end, namespace } = await runProbe(cluster, targets, { ...flags, host: name });
    return {
      host: name,
      platform: host.status?.info?.os ?? "",
      machine: `checked by a pod in namespace ${namespace}${end.at === "ran" ? ` on node ${end.node}` : ""}`,
      tookMs: Math.round(performance.now() - startMs),
      results: resultsOf(targets, end, { isServing: served.length > 0 }),
      fixed: [],
      inventory: {},
    };
  });
}

/** The endpoints that kube-proxy sends requests to. */
async function servedBy(cluster: Cluster, host: string): Promise<readonly string[]> {
  const slices = await listAll(cluster, ENDPOINT_SLICES, { labelSelector: `${LABEL_HOST}=${host}` });
  return slices.flatMap((slice) => readyEndpoints([slice]).map(({ address, port }) => `${address}:${port}`));
}

function addressesOf({ metadata, status }: Host): readonly string[] {
  const addresses = status?.addresses ?? [];
  if (addresses.length === 0)
    throw new MetalbridgeError("AddressUnknown", `the agent of ${metadata.name} has published no address`);
  return addresses.map((address) => `${address}:${ANY_PORT}`);
}

async function runProbe(
  cluster: Cluster,
  targets: readonly string[],
  flags: ProbeFlags & { readonly host: string },
) {
  const timeoutMs = flags.timeout ?? TIMEOUT_MS;
  const stop = listenForStop();
  const { image, namespace, pullSecrets } = await findProbeImage(cluster, flags);
  const ref = { name: `metalbridge-probe-${randomUUID().slice(0, 8)}`, namespace };
  const deadlineSeconds = Math.max(1, Math.ceil((timeoutMs || TIMEOUT_MS) / 1_000));
  const pod = probePod({ ...ref, image, pullSecrets, targets, deadlineSeconds });
  try {
    unwrapResult({ verb: "create", kind: PODS, ...ref }, await cluster.client.create(PODS, pod));
    let why = "the pod has not started";
    const options = { signal: stop.signal, timeoutMs };
    const followed = await follow<ReachProbeResult>(cluster, options, ({ watch, finish }) => {
      const pods = watch(PODS, { namespace, fieldSelector: `metadata.name=${ref.name}` }, () => {
        const [found] = pods.list();
        if (found === undefined) return finish({ at: "stuck", why: "the pod was deleted" });
        const seen = readProbe(found);
        if (seen.at === "waiting") why = seen.why;
        else finish(seen);
      });
    });
    const end: ReachProbeResult = followed.at === "finished" ? followed.value : { at: "waiting", why };
    return { end, namespace };
  } finally {
    await removeOne(cluster, PODS, ref);
  }
}

/** The given image, else that of the controller; and the namespace for the pod. Throws NoProbeImage. */
async function findProbeImage(
  { client, namespace: contextNamespace }: Cluster,
  given: ProbeFlags & { readonly host: string },
) {
  const found = await client.list<Deployment>(DEPLOYMENTS, { labelSelector: CONTROLLER });
  const controller = found.ok ? found.value.items[0] : undefined;
  const spec = controller?.spec.template.spec;
  const image = given.image ?? spec?.containers[0]?.image;
  if (image === undefined)
    throw new MetalbridgeError(
      "NoProbeImage",
      "the cluster has no controller whose image could be used",
      remedyOf("NoProbeImage", { host: given.host }),
    );
  const namespace = given.namespace ?? controller?.metadata.namespace ?? contextNamespace;
  const isOfController = namespace === controller?.metadata.namespace;
  return { image, namespace, pullSecrets: isOfController ? (spec?.imagePullSecrets ?? []) : [] };
}

function resultsOf(
  targets: readonly string[],
  end: ReachProbeResult,
  { isServing }: { readonly isServing: boolean },
): readonly CheckResult[] {
  const common = {
    code: CODE,
    check: "route from the cluster",
    reason: "requests reach engines from nodes and pods, not from the host itself",
  } as const;
  if (end.at !== "ran")
    return [{ ...common, status: "unknown", finding: `the probe did not run: ${end.why}` }];
  return targets.map((target) => {
    const why = end.failed.get(target);
    if (why === undefined || (why === "ECONNREFUSED" && !isServing))
      return { ...common, status: "ok", finding: `${target} answers` };
    const finding = `a pod cannot connect to ${target}: ${why}`;
    return { ...common, status: "error", finding, fix: defaultRemedy(CODE) };
  });
}
