/** Reads which devices kube-scheduler allocated to the claims of pods (dynamic resource allocation). */
import { RESOURCE_CLAIMS } from "../../src/kube/kinds.ts";
import type { ApiResult, KubeClient } from "../../src/kube/types.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { isLive, type ObservedPods } from "./pods.ts";

/** The request in the claim of a service's flavors is a prioritized list; the allocation names the chosen one. */
const FLAVOR_REQUEST = "flavor/";

export interface AllocatedDevices {
  /** For example `chat-1 on gpu-1 (gpus/large: gpu-0 of gpu.nvidia.com)`; empty for claims without devices. */
  readonly text: string;
  /** The flavor that the devices are of. */
  readonly flavor: string | undefined;
}

const MAX_PODS = 3;

/** An allocation does not change while its pod exists, and the watch delivers each change of a pod as a new object. */
const known = new WeakMap<Pod, AllocatedDevices>();

/** For the first pods with claims. Unreadable claims are left out. */
export async function readDevices(
  client: KubeClient,
  pods: readonly Pod[],
): Promise<Pick<ObservedPods, "devices" | "flavors">> {
  const scheduled = pods
    .filter((pod) => isLive(pod) && pod.spec.nodeName !== undefined && claimsOf(pod).length > 0)
    .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  const first = scheduled
    .slice(0, MAX_PODS)
    .map(async (pod) => known.get(pod) ?? (await allocatedTo(client, pod)));
  const allocated = (await Promise.all(first)).filter(({ text }) => text !== "");
  return {
    devices: allocated.map(({ text }) => text),
    flavors: [...new Set(allocated.flatMap(({ flavor }) => flavor ?? []))],
  };
}

/** Names of ResourceClaims: those that the pod names, and those that were created for it. */
function claimsOf({ spec, status }: Pod): readonly string[] {
  const created = new Map(status?.resourceClaimStatuses?.map((one) => [one.name, one.resourceClaimName]));
  return (spec.resourceClaims ?? []).flatMap(
    ({ name, resourceClaimName }) => resourceClaimName ?? created.get(name) ?? [],
  );
}

async function allocatedTo(client: KubeClient, pod: Pod): Promise<AllocatedDevices> {
  const { name, namespace } = pod.metadata;
  const claims = await Promise.all(
    claimsOf(pod).map((claim) => client.get(RESOURCE_CLAIMS, { namespace, name: claim })),
  );
  const devices = claims.flatMap((claim) =>
    claim.ok ? (claim.value.status?.allocation?.devices?.results ?? []) : [],
  );
  const named = devices.map(({ request, device, driver }) => `${request}: ${device} of ${driver}`);
  const text = named.length === 0 ? "" : `${name} on ${pod.spec.nodeName} (${named.join(", ")})`;
  const chosen = devices.find(({ request }) => request.startsWith(FLAVOR_REQUEST));
  const allocated = { text, flavor: chosen?.request.slice(FLAVOR_REQUEST.length) };
  if (claims.every(isAnswer)) known.set(pod, allocated);
  return allocated;
}

/** False if the API server may answer otherwise for the same pod. */
function isAnswer(result: ApiResult<unknown>): boolean {
  return result.ok || result.error.kind === "notFound";
}
