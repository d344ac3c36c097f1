/** Means of the readings of each GPU, and their metrics. */
import type { MetricFamily, MetricSample } from "../../src/http/metrics/family.ts";
import { GPU_TEMPERATURE } from "../../src/http/metrics/live.ts";
import type { RunCommand } from "../../src/util/command.ts";
import type { Clock } from "../../src/util/ports.ts";
import { type GpuGauge, readGpuGauges } from "../host/linux/gauges.ts";
import type { HardwareRoots } from "../host/linux/roots.ts";

const WINDOW_MS = 60_000;

export interface GpuGauges {
  /** Reads the GPUs once. */
  readonly sample: () => Promise<void>;
  /** The last temperatures, and the utilization as a mean over the last minute. */
  readonly latest: () => readonly GpuGauge[];
}

export function createGpuGauges(
  roots: HardwareRoots,
  run: RunCommand,
  clock: Pick<Clock, "monotonicMs">,
): GpuGauges {
  let samples: { readonly atMs: number; readonly gpus: readonly GpuGauge[] }[] = [];
  return {
    sample: async () => {
      const gpus = await readGpuGauges(roots, run);
      const atMs = clock.monotonicMs();
      samples = [...samples.filter((sample) => sample.atMs > atMs - WINDOW_MS), { atMs, gpus }];
    },
    latest: () =>
      (samples.at(-1)?.gpus ?? []).map((now) => {
        const same = samples.flatMap(({ gpus }) => gpus.filter(({ gpu }) => gpu === now.gpu));
        return { ...now, utilization: meanUtilization(same) };
      }),
  };
}

/** From 0 to 1; undefined if no GPU reports it. */
export function meanUtilization(gauges: readonly GpuGauge[]): number | undefined {
  const known = gauges.flatMap(({ utilization }) => utilization ?? []);
  return known.length === 0 ? undefined : known.reduce((sum, one) => sum + one, 0) / known.length;
}

export interface GpuFacts {
  readonly node: string;
  readonly gpus: readonly GpuGauge[];
}

const perGpu =
  (read: (gauge: GpuGauge) => number | undefined) =>
  ({ node, gpus }: GpuFacts): readonly MetricSample[] =>
    gpus.flatMap((gauge) => {
      const value = read(gauge);
      return value === undefined ? [] : [{ labels: { gpu: gauge.gpu, node }, value }];
    });

export const nodeMetrics: readonly MetricFamily<GpuFacts>[] = [
  { ...GPU_TEMPERATURE, read: perGpu(({ temperatureCelsius }) => temperatureCelsius) },
  {
    name: "metalbridge_gpu_utilization_ratio",
    type: "gauge",
    help: "Utilization of the GPU with this PCI address, from 0 to 1, as a mean over one minute.",
    labels: ["gpu", "node"],
    read: perGpu(({ utilization }) => utilization),
  },
];
