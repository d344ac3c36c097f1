/** Samples the figures of a service while its page is open, whichever tab is shown. */
import { useEffect, useRef, useState } from "react";
import { useLive } from "../../../live/hooks.ts";
import type { ServiceObjects } from "../service-state.ts";

export interface Sample {
  readonly atMs: number;
  readonly tokensPerSecond: number | null;
  readonly requestsInFlight: number | null;
  readonly timeToFirstTokenSeconds: number | null;
  /** Measured footprints of all replicas together. */
  readonly memoryBytes: number | null;
}

const SAMPLE_MS = 5_000;
/** One hour. */
const MAX_SAMPLES = 720;

export function useSamples(objects: ServiceObjects): readonly Sample[] {
  const live = useLive();
  const latest = useRef(objects);
  latest.current = objects;
  const [samples, setSamples] = useState<readonly Sample[]>([]);
  useEffect(() => {
    const take = () => setSamples((before) => withSample(before, sampleOf(latest.current, live.nowMs())));
    take();
    const timer = setInterval(take, SAMPLE_MS);
    return () => clearInterval(timer);
  }, [live]);
  return samples;
}

function sampleOf({ service, replicas, row }: ServiceObjects, atMs: number): Sample {
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
function withSample(samples: readonly Sample[], sample: Sample): readonly Sample[] {
  return [...samples.slice(-(MAX_SAMPLES - 1)), sample];
}
