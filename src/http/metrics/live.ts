/** Metrics of models and GPUs that more than one part reports, and their names in FlexInfer. */
import type { MetricFamily, MetricSample } from "./family.ts";
import { createHistograms, type LabeledHistograms } from "./histogram.ts";
import { createTally } from "./tally.ts";

const MODEL_LABELS = ["model", "backend", "node"] as const;

export const TOKENS_PER_SECOND = {
  name: "metalbridge_tokens_per_second",
  type: "gauge",
  help: "Tokens generated per second, as a mean over the last minute, by source of the model, runtime, and host or node.",
  labels: MODEL_LABELS,
} as const;

export const MODEL_LOAD_SECONDS = {
  name: "metalbridge_model_load_seconds",
  type: "histogram",
  help: "Time to load a model, by its source, runtime, and host or node; phase pull: the download of the weights with its retries; phase start: from the start of the engine until it was ready, in pods with the download if the engine makes it.",
  labels: [...MODEL_LABELS, "phase"],
} as const;

const LOAD_SECONDS = [0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600, 1_800, 3_600] as const;

/** For MODEL_LOAD_SECONDS. */
export function createLoadTimes(): LabeledHistograms {
  return createHistograms(LOAD_SECONDS);
}

export const GPU_TEMPERATURE = {
  name: "metalbridge_gpu_temperature_celsius",
  type: "gauge",
  help: "Temperature of the GPU with this PCI address; not reported where it cannot be read without root.",
  labels: ["gpu", "node"],
} as const;

const SHARED: ReadonlySet<string> = new Set(
  [TOKENS_PER_SECOND, MODEL_LOAD_SECONDS, GPU_TEMPERATURE].map(({ name }) => name),
);

/** Adds the families above under FlexInfer's names, for existing dashboards. */
export function withFlexinferNames<Facts>(
  families: readonly MetricFamily<Facts>[],
): readonly MetricFamily<Facts>[] {
  return families.flatMap((family) =>
    SHARED.has(family.name)
      ? [family, { ...family, name: family.name.replace("metalbridge_", "flexinfer_") }]
      : [family],
  );
}

/** One sample per set of labels: replicas of one model on one machine share a series, and their speeds add up. */
export function sumSamples(samples: Iterable<Required<MetricSample>>): Iterable<MetricSample> {
  const sums = createTally();
  for (const { labels, value } of samples) sums.add(labels, value);
  return sums.samples();
}
