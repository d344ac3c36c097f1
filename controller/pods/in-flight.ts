/** Queries pods for their requests in flight. Each failure means an unknown number, never zero. */

import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { SECRETS } from "../../src/kube/kinds.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { type PodProbe, podProbeOf, readPodGauges } from "./pod-gauges.ts";
import type { InFlight } from "./rollout.ts";

/** Timeout for all pods of a service. Pods without a result by then are unknown. */
const ALL_TIMEOUT_MS = 5_000;
const MAX_CONCURRENT = 16;

export async function readPodsInFlight(
  client: KubeClient,
  service: InferenceService,
  pods: readonly Pod[],
): Promise<InFlight> {
  const probes = pods.map((pod) => ({ pod, probe: podProbeOf(pod) }));
  const needsKey = probes.some(({ probe }) => probe?.isProtected === true);
  const key = needsKey ? await apiKeyOf(client, service) : undefined;
  const end = AbortSignal.timeout(ALL_TIMEOUT_MS);
  const inFlight = new Map<string, number | undefined>();
  const pending = probes.values();
  const work = async () => {
    for (const { pod, probe } of pending)
      inFlight.set(pod.metadata.name, probe && (await query(pod, probe, { key, end })));
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT }, work));
  return inFlight;
}

/** The first key in the Secret, which may contain comments. Also undefined if the controller may not read Secrets. */
async function apiKeyOf(
  client: KubeClient,
  { metadata, spec }: InferenceService,
): Promise<string | undefined> {
  if (spec.auth === undefined) return undefined;
  const { secretRef, key } = spec.auth;
  const secret = await client.get(SECRETS, { name: secretRef.name, namespace: metadata.namespace });
  if (!secret.ok) return undefined;
  const lines = Buffer.from(secret.value.data?.[key] ?? "", "base64")
    .toString()
    .split("\n");
  return lines.map((line) => line.trim()).find((line) => line !== "" && !line.startsWith("#"));
}

async function query(
  pod: Pod,
  { path, names, isProtected }: PodProbe,
  { key, end }: { readonly key: string | undefined; readonly end: AbortSignal },
): Promise<number | undefined> {
  if (isProtected && key === undefined) return undefined;
  const gauges = await readPodGauges(pod, path, names, { end, key: isProtected ? key : undefined });
  return gauges?.sum();
}
