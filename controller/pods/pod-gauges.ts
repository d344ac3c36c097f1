/** Reads the Prometheus gauges and counters of the engine in a pod. */

import { ANNOTATION_IN_FLIGHT, IN_FLIGHT_NEEDS_KEY, PORT_NAME } from "../../src/api/group.ts";
import { createGauges } from "../../src/engines/generic/program.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { hostInUrl } from "../../src/util/host-in-url.ts";

const TIMEOUT_MS = 3_000;
/** Maximum length of a line, which is buffered until its end. */
const MAX_LINE = 64 * 1024;
/** Maximum length of a response. With many models and labels, an engine writes a few hundred KiB. */
const MAX_LENGTH = 4 * 1024 * 1024;

export interface PodProbe {
  readonly path: string;
  /** Gauges whose sum is the number of requests in flight. */
  readonly names: readonly string[];
  readonly isProtected: boolean;
}

/** Undefined if the engine does not report its requests. */
export function podProbeOf({ metadata }: Pod): PodProbe | undefined {
  const [path, names, key] = metadata.annotations?.[ANNOTATION_IN_FLIGHT]?.split(" ") ?? [];
  // A path without the slash would continue the port in the URL.
  if (path?.startsWith("/") !== true || names === undefined) return undefined;
  return { path, names: names.split(","), isProtected: key === IN_FLIGHT_NEEDS_KEY };
}

type Gauges = ReturnType<typeof createGauges>;

/** Undefined if the pod cannot be reached, does not answer in time, or answers with a failure or too much text. */
export async function readPodGauges(
  { spec, status }: Pod,
  path: string,
  names: readonly string[],
  { key, end }: { readonly key?: string | undefined; readonly end: AbortSignal },
): Promise<Gauges | undefined> {
  const address = status?.podIP;
  const ports = spec.containers.flatMap(({ ports = [] }) => ports);
  const port = ports.find(({ name }) => name === PORT_NAME)?.containerPort;
  if (address === undefined || port === undefined) return undefined;
  const host = hostInUrl(address);
  try {
    const response = await fetch(`http://${host}:${port}${path}`, {
      redirect: "error",
      signal: AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), end]),
      headers: key === undefined ? undefined : { authorization: `Bearer ${key}` },
    });
    const gauges = await parseBody(response, names);
    return response.ok ? gauges : undefined;
  } catch {
    return undefined;
  }
}

async function parseBody({ body }: Response, names: readonly string[]): Promise<Gauges> {
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
  return gauges;
}
