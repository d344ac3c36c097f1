/** Queries pods for their requests in flight. Each failure means an unknown number, never zero. */

import { ANNOTATION_IN_FLIGHT, IN_FLIGHT_NEEDS_KEY, PORT_NAME } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { createGauges } from "../../../src/engines/generic/program.ts";
import { SECRETS } from "../../../src/kube/kinds.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { hostInUrl } from "../../../src/util/host-in-url.ts";
import type { InFlight } from "./rollout.ts";

const TIMEOUT_MS = 3_000;
/** Timeout for all pods of a service. Pods without a result by then are unknown. */
const ALL_TIMEOUT_MS = 5_000;
const MAX_CONCURRENT = 16;
/** Maximum length of a line, which is buffered until its end. */
const MAX_LINE = 64 * 1024;
/** Maximum length of a response. With many models and labels, an engine writes a few hundred KiB. */
const MAX_LENGTH = 4 * 1024 * 1024;

interface Probe {
  readonly path: string;
  readonly names: readonly string[];
  readonly isProtected: boolean;
}

export async function readPodsInFlight(
  client: KubeClient,
  service: InferenceService,
  pods: readonly Pod[],
): Promise<InFlight> {
  const probes = pods.map((pod) => ({ pod, probe: probeOf(pod) }));
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

function probeOf({ metadata }: Pod): Probe | undefined {
  const [path, names, key] = metadata.annotations?.[ANNOTATION_IN_FLIGHT]?.split(" ") ?? [];
  if (path === undefined || names === undefined) return undefined;
  return { path, names: names.split(","), isProtected: key === IN_FLIGHT_NEEDS_KEY };
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
  { spec, status }: Pod,
  { path, names, isProtected }: Probe,
  { key, end }: { readonly key: string | undefined; readonly end: AbortSignal },
): Promise<number | undefined> {
  const address = status?.podIP;
  const ports = spec.containers.flatMap(({ ports = [] }) => ports);
  const port = ports.find(({ name }) => name === PORT_NAME)?.containerPort;
  if (address === undefined || port === undefined || (isProtected && key === undefined)) return undefined;
  const host = hostInUrl(address);
  try {
    const response = await fetch(`http://${host}:${port}${path}`, {
      redirect: "error",
      signal: AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), end]),
      headers: isProtected ? { authorization: `Bearer ${key}` } : undefined,
    });
    const sum = await readGauges(response, names);
    return response.ok ? sum : undefined;
  } catch {
    return undefined;
  }
}

async function readGauges({ body }: Response, names: readonly string[]): Promise<number | undefined> {
  const gauges = createGauges(names);
  let line = "";
  let length = 0;
  for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    length += part.length;
    for (const [index, text] of part.split("\n").entries()) {
      if (index > 0) gauges.add(line);
      line = index > 0 ? text : line + text;
      if (line.length > MAX_LINE || length > MAX_LENGTH) throw new Error("the response is too large");
    }
  }
  gauges.add(line);
  return gauges.sum();
}
