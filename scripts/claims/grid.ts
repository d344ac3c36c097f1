/** The grid on which claims are held against the real engine: shapes of models times engine settings, every pair of values at least once. */
import { MODEL_ARCHITECTURES, type SparseArchitecture } from "../../cli/calibrate/architectures.ts";
import { type SparseModel, sparseWeightsBytes } from "../../cli/calibrate/sparse-model.ts";
import type { MemorySetting } from "../../src/api/engine-settings.ts";
import type { ClaimSettings } from "../../src/engines/llamacpp/claim/claim-settings.ts";
import { createRandom, type Random } from "../../test/bed/random.ts";

export interface ClaimCase {
  readonly model: SparseModel;
  readonly settings: ClaimSettings;
}

/** Settings of the estimate, but those that repeat one of these, change the model or only add a constant. */
const SETTING_FACTORS = {
  contextSize: [2048, 8192, 32_768],
  cacheTypeCustomK: ["f16", "f32", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"],
  cacheTypeCustomV: ["f16", "f32", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"],
  parallelSlots: [1, 2, 5, 16],
  kvUnified: [true, false],
  batchSize: [256, 2048],
  uBatchSize: [32, 512, 2048],
  flashAttention: [true, false],
} as const satisfies Record<
  Exclude<MemorySetting, "cacheTypeK" | "cacheTypeV" | "metadataOverrides" | "promptCacheMiB">,
  readonly (string | number | boolean)[]
>;

const FACTORS = {
  architecture: Object.keys(MODEL_ARCHITECTURES) as SparseArchitecture[],
  layers: [4, 9, 24],
  width: [512, 1024, 2048],
  heads: [8, 16, 32],
  kvHeads: [1, 4, 32],
  headSize: [64, 128, 256],
  feedForward: [1024, 2816, 8192],
  vocabulary: [32_000, 64_000, 152_064],
  window: [512, 4096],
  experts: [0, 8, 64],
  weightType: ["f16", "q8_0"],
  ...SETTING_FACTORS,
} as const satisfies Record<string, readonly (string | number | boolean)[]>;

/** Fewer values of what has many, for a test that has to be quick. */
const BRIEF: Partial<Record<Factor, readonly (string | number | boolean)[]>> = {
  layers: [4, 9],
  vocabulary: [8_000, 32_000],
  cacheTypeCustomK: ["f16", "f32", "q8_0", "q4_1", "iq4_nl"],
  cacheTypeCustomV: ["f16", "f32", "q8_0", "q5_0"],
};

export interface GridOptions {
  /** Picks among equals. */
  readonly seed?: number;
  readonly only?: SparseArchitecture;
  readonly isBrief?: boolean;
}

type Factor = keyof typeof FACTORS;
const NAMES = Object.keys(FACTORS) as Factor[];
type Choice = { readonly [F in Factor]: (typeof FACTORS)[F][number] };

/** Cases in which every two values of two factors meet, where the engine takes them together. */
export function pairwiseCases(options: GridOptions = {}): ClaimCase[] {
  const random = createRandom(options.seed ?? 1);
  const open = pairsOf(options);
  const cases: ClaimCase[] = [];
  for (const pair of open) {
    const choices = Array.from({ length: TRIES }, () => randomChoice(random, pair, options)).filter(
      (choice) => caseOf(choice, options) !== undefined,
    );
    const best = bestOf(choices, open);
    const made = best && caseOf(best, options);
    // Not one of many choices is possible: these two exclude each other.
    open.delete(pair);
    if (best === undefined || made === undefined) continue;
    for (const met of pairsIn(best)) open.delete(met);
    cases.push(made);
  }
  return cases;
}

const TRIES = 30;

function pairsOf(options: GridOptions): Set<string> {
  const pairs = new Set<string>();
  for (const [index, a] of NAMES.entries())
    for (const b of NAMES.slice(index + 1))
      for (const x of valuesOf(a, options))
        for (const y of valuesOf(b, options)) pairs.add(pairName(a, x, b, y));
  return pairs;
}

function valuesOf(
  factor: Factor,
  { only, isBrief = false }: GridOptions,
): readonly (string | number | boolean)[] {
  if (factor === "architecture" && only !== undefined) return [only];
  return (isBrief ? BRIEF[factor] : undefined) ?? FACTORS[factor];
}

const pairName = (a: string, x: unknown, b: string, y: unknown) => `${a}=${x} ${b}=${y}`;

function pairsIn(choice: Choice): string[] {
  return NAMES.flatMap((a, index) => NAMES.slice(index + 1).map((b) => pairName(a, choice[a], b, choice[b])));
}

/** With one pair given, the rest by chance. */
function randomChoice(random: Random, pair: string, options: GridOptions): Choice {
  const chosen = Object.fromEntries(NAMES.map((name) => [name, random.pick(valuesOf(name, options))]));
  for (const part of pair.split(" ")) {
    const [name = "", text] = part.split("=");
    if (name !== "")
      chosen[name] = valuesOf(name as Factor, options).find((value) => String(value) === text) ?? "";
  }
  return chosen as unknown as Choice;
}

/** The one that meets the most open pairs. */
function bestOf(choices: readonly Choice[], open: ReadonlySet<string>): Choice | undefined {
  let best: Choice | undefined;
  let most = -1;
  for (const choice of choices) {
    const gain = pairsIn(choice).filter((pair) => open.has(pair)).length;
    if (gain > most) [best, most] = [choice, gain];
  }
  return best;
}

const FULL_PRECISION = new Set<string>(["f16", "f32", "bf16"]);
const SQUARE: readonly SparseArchitecture[] = ["qwen2", "phi3", "jamba"];
const MIN_BYTES = 110 << 20;
/** The engine maps the whole file into memory, holes included: 55 GiB, the largest without a limit, take a minute of CPU. */
const MAX_BYTES = 8 * 1024 ** 3;
/** Most of a brief grid's time was the system's, for the pages of a few large files. */
const MAX_BRIEF_BYTES = 512 * 1024 ** 2;
/** The engine clears its caches: larger ones only cost time. */
const MAX_KV_BYTES = 256 << 20;

/** The case as the engine takes it; undefined where it would refuse. */
function caseOf(choice: Choice, { isBrief = false }: GridOptions): ClaimCase | undefined {
  const isSquare = SQUARE.includes(choice.architecture);
  const headSize = isSquare ? choice.width / choice.heads : choice.headSize;
  const kvHeads = Math.min(choice.kvHeads, choice.heads);
  const isSameType = choice.architecture === "deepseek2";
  const cacheTypeCustomV = isSameType ? choice.cacheTypeCustomK : choice.cacheTypeCustomV;
  if (headSize < 32 || (!choice.flashAttention && !FULL_PRECISION.has(cacheTypeCustomV))) return undefined;
  const model = grown({
    architecture: choice.architecture,
    layers: choice.layers,
    width: choice.width,
    heads: choice.heads,
    kvHeads,
    headSize,
    feedForward: choice.feedForward,
    vocabulary: choice.vocabulary,
    window: choice.window,
    weightType: choice.weightType,
    ...expertsOf(choice),
  });
  if (sparseWeightsBytes(model) > (isBrief ? MAX_BRIEF_BYTES : MAX_BYTES)) return undefined;
  const fits = (context: number) => context * model.layers * kvHeads * headSize * 2 * 4 <= MAX_KV_BYTES;
  const contextSize = [choice.contextSize, 8192, 2048].find(fits);
  if (contextSize === undefined) return undefined;
  return {
    model,
    settings: { ...settingsOf(choice), contextSize, cacheTypeCustomV, promptCacheMiB: 0 },
  };
}

function settingsOf(choice: Choice): ClaimSettings {
  return Object.fromEntries(Object.entries(choice).filter(([name]) => name in SETTING_FACTORS));
}

const WITH_EXPERTS: readonly SparseArchitecture[] = ["llama", "qwen3moe", "deepseek2"];

function expertsOf({ architecture, experts }: Choice): Pick<SparseModel, "experts"> {
  const count = architecture === "qwen3moe" ? Math.max(8, experts) : experts;
  if (!WITH_EXPERTS.includes(architecture) || count === 0) return {};
  return { experts: { count, used: count === 8 ? 2 : 6, width: 768 } };
}

/** Tiny models are nothing but rounding: they get more layers. */
function grown(model: SparseModel): SparseModel {
  return sparseWeightsBytes(model) >= MIN_BYTES ? model : grown({ ...model, layers: model.layers * 2 });
}
