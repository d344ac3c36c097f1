/** Figures of a service over the time that its page is open. Pure. */
import type { ServiceObjects } from "../service-state.ts";

export interface Sample {
  readonly atMs: number;
  readonly tokensPerSecond: number | null;
  readonly requestsInFlight: number | null;
  readonly timeToFirstTokenSeconds: number | null;
  /** Measured footprints of all replicas together. */
  readonly memoryBytes: number | null;
}

export const SAMPLE_MS = 5_000;
/** One hour. */
const MAX_SAMPLES = 720;

export function sampleOf({ service, replicas, row }: ServiceObjects, atMs: number): Sample {
  const performance = row?.performance ?? service.status?.performance ?? {};
  const footprints = replicas.flatMap(({ status }) => status?.memory?.footprintBytes ?? []);
  return {
    atMs,
    tokensPerSecond: performance.tokensPerSecond ?? null,
    requestsInFlight: performance.requestsInFlight ?? null,
    timeToFirstTokenSeconds: performance.timeToFirstTokenSeconds ?? null,
    memoryBytes: footprints.length === 0 ? null : footprints.reduce((sum, bytes) => sum + bytes, 0),
  };
}

/** The oldest samples make room. */
export function withSample(samples: readonly Sample[], sample: Sample): readonly Sample[] {
  return [...samples.slice(-(MAX_SAMPLES - 1)), sample];
}
