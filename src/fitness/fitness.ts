/** How well models fit a machine: which quantization and context, how fast, and why. Pure. */
import { matchName } from "./catalog/match.ts";
import type { CatalogRecord } from "./catalog/record.ts";
import { type CacheType, claimsOf } from "./claim.ts";
import type { Machine } from "./machine.ts";
import {
  type Family,
  type FileSize,
  fileSize,
  ladderOf,
  type Quantization,
  quantizationIn,
} from "./quantizations.ts";
import {
  enoughContext,
  FIT_LEVELS,
  type FitLevel,
  fitLevel,
  isFor,
  qualityParts,
  type Score,
  scoreOf,
  type UseCase,
} from "./score.ts";
import { type Draft, draftClaims, type Speculation, speculationOf, speculativeSpeed } from "./speculation.ts";
import { decodeSpeed, type Figure, firstTokenSeconds, loadSeconds, promptSpeed } from "./speed.ts";

export interface FitWish {
  readonly useCase: UseCase;
  /** Tokens; the model's window if it is smaller. */
  readonly contextSize: number;
  readonly cacheType: CacheType;
  readonly families: readonly Family[];
  /** Only this one. */
  readonly quantization?: Quantization;
  /** Decodes speculatively where this model can help. */
  readonly draft?: Draft;
}

export interface BriefFitness {
  readonly quantization: string;
  readonly family: Family;
  readonly level: FitLevel;
  readonly score: Score;
  readonly claimBytes: number;
  readonly budgetBytes: number;
  /** Tokens per second of an answer. */
  readonly tokensPerSecond: Figure;
}

export interface Fitness extends BriefFitness {
  readonly model: string;
  readonly file: FileSize;
  /** As wished, or the model's window. */
  readonly contextSize: number;
  /** The largest context that fits with this file. */
  readonly contextThatFits: number;
  readonly promptTokensPerSecond?: Figure;
  /** Until the first token after a prompt of PROMPT_TOKENS. */
  readonly firstTokenSeconds?: Figure;
  readonly loadSeconds: Figure;
  readonly reasons: readonly string[];
}

export const PROMPT_TOKENS = 1024;
const CONTEXT_STEP = 256;
const LEAST_CONTEXT = 512;

/** One row per model that is made for the use and whose shapes are known, the best first; too_tight last. */
export function rankModels(
  records: readonly CatalogRecord[],
  machine: Machine,
  wish: FitWish,
): readonly Fitness[] {
  const measured = measuredOn(records, machine);
  return records
    .filter((record) => isFor(record, wish.useCase))
    .flatMap((record) => bestFit(record, machine, wish, measured) ?? [])
    .sort(byScore);
}

/** With the quantization that scores best; the smallest where none fits. Undefined where nothing can size the model. */
export function bestFit(
  record: CatalogRecord,
  machine: Machine,
  wish: FitWish,
  measured: ReadonlyMap<string, number> = measuredOn([record], machine),
): Fitness | undefined {
  const best = bestCandidate(record, machine, wish, measured);
  return best === undefined ? undefined : fitnessOf(record, machine, best);
}

/** The same without what only a reader needs: for whole fleets. */
export function briefFit(record: CatalogRecord, machine: Machine, wish: FitWish): BriefFitness | undefined {
  const best = bestCandidate(record, machine, wish, measuredOn([record], machine));
  return best === undefined ? undefined : briefOf(machine, best);
}

function bestCandidate(
  record: CatalogRecord,
  machine: Machine,
  wish: FitWish,
  measured: ReadonlyMap<string, number>,
): Candidate | undefined {
  const { quantization: only } = wish;
  const families = wish.families.filter((family) => only !== undefined || hasFiles(record, family));
  const steps = families.flatMap((family) =>
    only === undefined ? ladderOf(record, family) : only.family === family ? [only] : [],
  );
  const contextSize = Math.min(wish.contextSize, record.context_length);
  const sized = steps.flatMap(
    (quantization) => sizedOf(record, machine, { ...wish, contextSize, quantization }) ?? [],
  );
  // What does not fit needs no score, unless nothing does.
  const fitting = sized.filter(({ share }) => share <= 1);
  const smallest = sized.reduce(
    (best: Sized | undefined, one) => (best && best.share <= one.share ? best : one),
    undefined,
  );
  const chosen = fitting.length > 0 || smallest === undefined ? fitting : [smallest];
  const candidates = chosen.map((one) =>
    candidateOf(record, machine, one, measured.get(measuredKey(record, one.step.quantization.name))),
  );
  return candidates.sort((a, b) => b.score.total - a.score.total)[0];
}

/** The best level at least: `good` has perfect too. */
export function isAtLeast(level: FitLevel, least: FitLevel): boolean {
  return FIT_LEVELS.indexOf(level) <= FIT_LEVELS.indexOf(least);
}

interface Step extends FitWish {
  readonly quantization: Quantization;
}

/** Where no repository is named at all, anyone may convert the model. */
function hasFiles({ gguf_sources, mlx_sources }: CatalogRecord, family: Family): boolean {
  const named = family === "gguf" ? gguf_sources : mlx_sources;
  return named.length > 0 || gguf_sources.length + mlx_sources.length === 0;
}

interface Sized {
  readonly step: Step;
  readonly file: FileSize;
  readonly claimBytes: number;
  readonly share: number;
  readonly claimAt: (tokens: number) => number;
  readonly speculation: Speculation | undefined;
}

interface Candidate extends Sized {
  readonly tokensPerSecond: Figure;
  readonly prompt: Figure | undefined;
  readonly score: Score;
}

function sizedOf(
  record: CatalogRecord,
  { accelerator, budgetBytes }: Machine,
  step: Step,
): Sized | undefined {
  const { quantization, cacheType, contextSize, draft } = step;
  const { family } = quantization;
  const file = fileSize(record, quantization);
  const alone = claimsOf(record, { family, weightsBytes: file.bytes, accelerator, cacheType });
  const speculation = speculationOf(record, quantization, draft);
  const beside = speculation === undefined ? () => 0 : draftClaims(speculation, { accelerator });
  if (alone === undefined || beside === undefined) return undefined;
  const claimAt = (tokens: number): number => alone(tokens) + beside(tokens);
  const claimBytes = claimAt(contextSize);
  return { step, file, claimBytes, share: claimBytes / budgetBytes, claimAt, speculation };
}

function candidateOf(
  record: CatalogRecord,
  machine: Machine,
  sized: Sized,
  measured: number | undefined,
): Candidate {
  const { step, share, claimAt, speculation } = sized;
  const { quantization, cacheType, useCase, contextSize } = step;
  const tokensInUse = Math.min(contextSize, PROMPT_TOKENS);
  const input = { record, machine, quantization, cacheType, tokensInUse };
  const tokensPerSecond =
    speculation === undefined || measured !== undefined
      ? decodeSpeed(input, measured)
      : speculativeSpeed(input, speculation);
  const prompt = promptSpeed(record, machine);
  const speed = useCase === "embedding" ? prompt : tokensPerSecond;
  // More context than is enough scores nothing, so only the winner's is worked out in full.
  const enough = Math.min(enoughContext(useCase), record.context_length);
  const contextThatFits = largestContext(enough, machine.budgetBytes, claimAt);
  const score = scoreOf({ record, useCase, quantization, share, contextSize: contextThatFits, speed });
  return { ...sized, tokensPerSecond, prompt, score };
}

function briefOf({ budgetBytes }: Machine, candidate: Candidate): BriefFitness {
  const { step, claimBytes, share, tokensPerSecond, score } = candidate;
  const { name: quantization, family } = step.quantization;
  return { quantization, family, level: fitLevel(share), score, claimBytes, budgetBytes, tokensPerSecond };
}

function fitnessOf(record: CatalogRecord, machine: Machine, candidate: Candidate): Fitness {
  const { step, file, share, tokensPerSecond, prompt, claimAt, speculation } = candidate;
  const { contextSize } = step;
  const contextThatFits = largestContext(record.context_length, machine.budgetBytes, claimAt);
  const tokensInUse = Math.min(contextSize, PROMPT_TOKENS);
  return {
    model: record.name,
    ...briefOf(machine, candidate),
    file,
    contextSize,
    contextThatFits,
    ...(prompt === undefined
      ? {}
      : {
          promptTokensPerSecond: prompt,
          firstTokenSeconds: firstTokenSeconds(tokensInUse, prompt, tokensPerSecond),
        }),
    loadSeconds: loadSeconds(file, machine),
    reasons: [
      ...reasonsOf(record, step, { share, contextThatFits, contextSize, tokensPerSecond }),
      ...(speculation === undefined
        ? []
        : [`decodes speculatively: ${speculation.record.name} proposes ${speculation.tokens} tokens a step`]),
    ],
  };
}

/** Of at most `limit` tokens. A claim is costly and nearly linear in the context, so the next guess is on the line. */
function largestContext(limit: number, budgetBytes: number, claimAt: (tokens: number) => number): number {
  if (claimAt(limit) <= budgetBytes) return limit;
  let low = LEAST_CONTEXT;
  let high = limit;
  if (high <= low || claimAt(low) > budgetBytes) return 0;
  while (high - low > CONTEXT_STEP) {
    const part = (budgetBytes - claimAt(low)) / (claimAt(high) - claimAt(low));
    const guess = toStep(low + part * (high - low));
    const next = Math.min(Math.max(guess, low + CONTEXT_STEP), toStep(high - 1));
    if (claimAt(next) > budgetBytes) high = next;
    else if (claimAt(next + CONTEXT_STEP) > budgetBytes) return next;
    else low = next + CONTEXT_STEP;
  }
  return low;
}

function toStep(tokens: number): number {
  return Math.floor(tokens / CONTEXT_STEP) * CONTEXT_STEP;
}

function reasonsOf(
  record: CatalogRecord,
  { quantization, useCase }: Step,
  {
    share,
    contextThatFits,
    contextSize,
    tokensPerSecond,
  }: Pick<Fitness, "contextThatFits" | "contextSize" | "tokensPerSecond"> & { readonly share: number },
): readonly string[] {
  const parts = qualityParts({ record, quantization, useCase });
  const percent = `${Math.round(share * 100)} % of the memory for engines`;
  return [
    ...parts.map(([why, points]) => `${why}: ${points < 0 ? "" : "+"}${points.toFixed(1)} quality`),
    share > 1 ? `needs ${percent}` : `takes ${percent}`,
    contextThatFits < contextSize
      ? `only ${contextThatFits} tokens of context fit`
      : `up to ${contextThatFits} tokens of context fit`,
    `${tokensPerSecond.value.toFixed(1)} tokens/s, ${tokensPerSecond.basis}: ${tokensPerSecond.low.toFixed(0)} to ${tokensPerSecond.high.toFixed(0)}`,
  ];
}

/** By model and quantization. A source counts for the one model and the one file that it means. */
function measuredOn(records: readonly CatalogRecord[], { measured }: Machine): ReadonlyMap<string, number> {
  return new Map(
    measured.flatMap(({ source, tokensPerSecond }) => {
      const match = matchName(records, source);
      if (match.at !== "one") return [];
      const quantization = quantizationIn(source) ?? match.record.quantization;
      return [[measuredKey(match.record, quantization), tokensPerSecond] as const];
    }),
  );
}

function measuredKey({ name }: CatalogRecord, quantization: string): string {
  return `${name} ${quantization.toLowerCase()}`;
}

function byScore(a: Fitness, b: Fitness): number {
  const isTightA = a.level === "too_tight";
  if (isTightA !== (b.level === "too_tight")) return isTightA ? 1 : -1;
  if (isTightA && a.claimBytes !== b.claimBytes) return a.claimBytes - b.claimBytes;
  return b.score.total - a.score.total || (a.model < b.model ? -1 : a.model > b.model ? 1 : 0);
}
