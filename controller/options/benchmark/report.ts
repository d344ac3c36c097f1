/** What the status of a Model says about its benchmarks. Pure. */

import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import { keyOf } from "../../../src/api/names.ts";
import type { BackendRevision } from "../../../src/capacity/backend.ts";
import { modelContentOf } from "../../../src/capacity/benchmark/table.ts";
import { compareText } from "../../../src/util/text.ts";
import { BENCHMARKED, type ModelBenchmarks } from "../../frame/option.ts";
import type { BenchmarksPlan, TargetState } from "./plan.ts";
import type { Target } from "./targets.ts";

const RESULTS_MAX = 64;
const NO_MACHINE =
  "the model generates no tokens, or no machine can measure it: a host needs a runtime with a benchmark program and enough memory, a node needs the weights on a volume and the GPUs";

/** By `namespace/name` of the Models. */
export function reportsOf(
  models: readonly Model[],
  targets: readonly Target[],
  plan: Pick<BenchmarksPlan, "states" | "results">,
  { isOn, unmeasuredOf }: ReportOptions,
): Map<string, ModelBenchmarks> {
  const own = new Map<string, Target[]>();
  for (const target of targets)
    for (const model of target.models) own.set(model, [...(own.get(model) ?? []), target]);
  return new Map(
    models.map((model) => {
      const key = keyOf(model.metadata);
      const isWanted = isOn && (model.spec.benchmark?.enabled ?? true) && modelContentOf(model) !== undefined;
      const unmeasured = isWanted ? unmeasuredOf(model) : undefined;
      return [key, reportOf(own.get(key) ?? [], plan, { isWanted, unmeasured })];
    }),
  );
}

interface ReportOptions {
  readonly isOn: boolean;
  /** What no benchmark can measure of the services of a Model. */
  readonly unmeasuredOf: (model: Model) => string | undefined;
}

const NAMED_MAX = 3;

/** Names the services whose engine is a program of its users. Undefined if there are none. */
export function unmeasuredText(
  services: readonly InferenceService[],
  backendOf: (service: InferenceService) => BackendRevision | undefined,
): string | undefined {
  const names = services
    .filter((service) => (backendOf(service)?.spec.engine ?? service.spec.runtime) === "generic")
    .map(({ metadata }) => metadata.name)
    .sort();
  if (names.length === 0) return undefined;
  const more = names.length > NAMED_MAX ? ` and ${names.length - NAMED_MAX} more` : "";
  return `not measured: InferenceService ${names.slice(0, NAMED_MAX).join(", ")}${more}, because no benchmark knows how to measure a program of engine generic`;
}

type Stated = { readonly target: Target; readonly state: TargetState };

function reportOf(
  targets: readonly Target[],
  { states, results: measured }: Pick<BenchmarksPlan, "states" | "results">,
  { isWanted, unmeasured }: { readonly isWanted: boolean; readonly unmeasured: string | undefined },
): ModelBenchmarks {
  const all = targets
    .map((target): Stated => ({ target, state: states.get(target.key) ?? { at: "off" } }))
    .sort((a, b) => compareText(placeOf(a.target), placeOf(b.target)));
  const results = all.flatMap(({ target }) => measured.get(target.key) ?? []);
  const benchmarks = results
    .slice(0, RESULTS_MAX)
    .map(({ deviceClass, runtime, build, measuredAt, generation }) => ({
      deviceClass,
      runtime,
      build,
      measuredAt,
      tokensPerSecond: generation.median,
    }));
  return {
    benchmarks: benchmarks.length === 0 ? undefined : benchmarks,
    condition: isWanted ? conditionOf(all, unmeasured) : undefined,
  };
}

function conditionOf(all: readonly Stated[], unmeasured: string | undefined): ModelBenchmarks["condition"] {
  if (all.length === 0) return { status: "Unknown", reason: "NoMachine", message: unmeasured ?? NO_MACHINE };
  const places = all.map(({ target, state }) => `${placeOf(target)}: ${textOf(state)}`);
  const message = [...places, unmeasured].filter((text) => text !== undefined).join("; ");
  const failed = all.map(({ state }) => state).find(({ at }) => at === "failed");
  if (failed?.at === "failed") return { status: "False", reason: failed.code, message };
  if (all.some(({ state }) => state.at !== "measured"))
    return { status: "Unknown", reason: "BenchmarkPending", message };
  return { status: "True", reason: BENCHMARKED, message };
}

/** For example `apple-m4-max-40 (cacheTypeK q8_0)`. */
function placeOf({ deviceClass, subject }: Target): string {
  const settings = Object.entries(subject.settings).map(([name, value]) => `${name} ${value}`);
  return settings.length === 0 ? deviceClass : `${deviceClass} (${settings.join(", ")})`;
}

function textOf(state: TargetState): string {
  switch (state.at) {
    case "measured":
      return speedText(state.result);
    case "running":
      return `pending on ${state.machine}: ${state.why}`;
    case "pending":
      return `pending: ${state.why}`;
    case "failed":
      return `failed: ${state.message}`;
    case "off":
      return "not measured";
    default:
      return state satisfies never;
  }
}

type Measured = Extract<TargetState, { at: "measured" }>["result"];

export function speedText({ generation, runtime, build }: Measured): string {
  return `${Number(generation.median.toPrecision(3))} tokens/s with ${runtime} ${build}`;
}
