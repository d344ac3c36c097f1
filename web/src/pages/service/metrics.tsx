/** Four charts of a service, over the time that its page has been open. */

import { useEffect, useRef, useState } from "react";
import { useLive } from "../../live/hooks.ts";
import { Chart } from "../../parts/chart/chart.tsx";
import { formatBytes, formatRate } from "../../parts/format.ts";
import type { ServiceObjects } from "./objects.ts";

const MS_PER_S = 1_000;

const CHARTS = [
  { title: "Tokens per second", figure: "tokensPerSecond", color: "--series-1", format: formatRate },
  { title: "Requests in flight", figure: "requestsInFlight", color: "--series-2", format: formatRate },
  {
    title: "Time to the first token",
    figure: "timeToFirstTokenSeconds",
    color: "--series-3",
    format: seconds,
  },
  { title: "Memory in use", figure: "memoryBytes", color: "--series-4", format: formatBytes },
] as const;

/** Four charts of a service, over the time that its page has been open. */
export function MetricsTab({ samples }: { readonly samples: readonly Sample[] }) {
  const times = samples.map(({ atMs }) => atMs / MS_PER_S);
  return (
    <div className="stack">
      <p className="muted small prose">
        Means of the last minute, which the cluster reports every 30 s, since this page was opened. Usage has
        the requests before.
      </p>
      <div className="service-charts">
        {CHARTS.map(({ title, figure, color, format }) => {
          const values = samples.map((sample) => sample[figure]);
          const last = values.findLast((value) => value !== null);
          return (
            <section key={figure} className="card stack gap-8">
              <div className="spread">
                <h3>{title}</h3>
                <span className="number">{last === undefined ? "–" : format(last)}</span>
              </div>
              {values.every((value) => value === null) ? (
                <p className="muted small service-chart-none">
                  Not reported since this page was opened: no request in the last minute, or no metrics.
                </p>
              ) : (
                <Chart
                  label={title}
                  times={times}
                  series={[{ label: title, values, color }]}
                  kind="line"
                  format={format}
                  height={160}
                />
              )}
            </section>
          );
        })}
      </div>
    </div>
  );
}

function seconds(value: number): string {
  return `${formatRate(value)} s`;
}

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

/** Samples the figures of a service while its page is open, whichever tab is shown. */
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
