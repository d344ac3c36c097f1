/** Samples the figures of a service while its page is open, whichever tab is shown. */
import { useEffect, useRef, useState } from "react";
import { useLive } from "../../../live/hooks.ts";
import type { ServiceObjects } from "../service-state.ts";
import { SAMPLE_MS, type Sample, sampleOf, withSample } from "./samples.ts";

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
