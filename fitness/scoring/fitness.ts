/** Fits models to a machine: quantization, context, speed, score and reasons. Pure. */
import { createMatcher } from "../catalog/match.ts";
import {
  type FileSize,
  fileSize,
  ladderOf,
  type Quantization,
  type QuantizationFamily,
  quantizationIn,
} from "../catalog/quantizations.ts";
import type { CatalogRecord } from "../catalog/record.ts";
import { beyondTraining, type CacheType, claimEstimatorOf, type RequestedContext } from "./claim.ts";
import type { Machine } from "./machine.ts";
import {
  enoughContext,
  FIT_LEVELS,
  type FitLevel,
  type FitScore,
  fitLevel,
  isFor,
  isSlow,
  qualityParts,
  READABLE_PER_SECOND,
  scoreFit,
  type UseCase,
  useCaseOf,
  withContext,
} from "./score.ts";
import { type Draft, draftClaims, type Speculation, speculationOf, speculativeSpeed } from "./speculation.ts";
import { decodeSpeed, type Estimate, firstTokenSeconds, loadSeconds, promptSpeed } from "./speed.ts";

/** A requested context counts as a whole: an engine reserves memory for all of it, also above the model's window. */
export interface FitRequest extends RequestedContext {
  /** Default: the model's own. */
  readonly useCase?: UseCase | undefined;
  /** Tokens; the model's window if it is smaller. */
  readonly contextSize: number;
  readonly cacheType: CacheType;
  readonly families: readonly QuantizationFamily[];
  /** Considers only this quantization. */
  readonly quantization?: Quantization;
  /** Draft model for speculative decoding, used for models that it can speed up. */
  readonly draft?: Draft;
}

export interface BriefFitness {
  readonly quantization: string;
  readonly family: QuantizationFamily;
  readonly level: FitLevel;
  readonly score: FitScore;
  readonly claimBytes: number;
  readonly budgetBytes: number;
  /** Tokens per second of a response. */
  readonly tokensPerSecond: Estimate;
}

export interface ModelFit extends BriefFitness {
  readonly model: string;
  readonly file: FileSize;
  /** The requested context, at most the model's window. */
  readonly contextSize: number;
  /** The largest context that fits with this file. */
  readonly contextThatFits: number;
  readonly promptTokensPerSecond?: Estimate;
  /** Until the first token after a prompt of PROMPT_TOKENS. */
  readonly firstTokenSeconds?: Estimate;
  readonly loadSeconds: Estimate;
  readonly reasons: readonly string[];
}

const PROMPT_TOKENS = 1024;
const CONTEXT_STEP = 256;
const MIN_CONTEXT = 512;

/** One row per model that suits the use case and has known tensor dimensions, best first; too_tight last. */
export function rankModels(
  records: readonly CatalogRecord[],
  machine: Machine,
  request: FitRequest,
): readonly ModelFit[] {
  const measured = measuredOn(records, machine);
  return records
    .filter((record) => isFor(record, request.useCase))
    .flatMap((record) => bestFit(record, machine, request, measured) ?? [])
    .sort(byScore);
}

/** The quantization that scores best, or the smallest if none fits. Undefined if the model cannot be sized. */
export function bestFit(
  record: CatalogRecord,
  machine: Machine,
  request: FitRequest,
  measured: ReadonlyMap<string, number> = measuredOn([record], machine),
): ModelFit | undefined {
  const best = bestCandidate(record, machine, request, measured);
  return best === undefined ? undefined : fitnessOf(record, machine, best);
}

/** The same with fewer fields, for whole fleets. */
export function briefFit(
  record: CatalogRecord,
  machine: Machine,
  request: FitRequest,
): BriefFitness | undefined {
  const best = bestCandidate(record, machine, request, measuredOn([record], machine));
  return best === undefined ? undefined : briefOf(record, machine, best);
}

function bestCandidate(
  record: CatalogRecord,
  machine: Machine,
  request: FitRequest,
  measured: ReadonlyMap<string, number>,
): Candidate | undefined {
  const { quantization: only } = request;
  const families = request.families.filter((family) =>
    only === undefined ? hasFiles(record, family) : only.family === family,
  );
  const contextSize = Math.min(request.contextSize, record.context_length);
  const useCase = request.useCase ?? useCaseOf(record);
  const sized = families.flatMap((family) => {
    const steps = only === undefined ? ladderOf(record, family) : [only];
    return sizedIn(record, machine, { ...request, useCase, contextSize }, steps);
  });
  // Quantizations that do not fit need no score, unless none fits.
  const fitting = sized.filter(({ share }) => share <= 1);
  const smallest = sized.reduce(
    (best: Sized | undefined, one) => (best && best.share <= one.share ? best : one),
    undefined,
  );
  const chosen = fitting.length > 0 || smallest === undefined ? fitting : [smallest];
  const prompt = promptSpeed(record, machine);
  const candidates = chosen.map((one) => {
    const known =
      measured.size === 0 ? undefined : measured.get(measuredKey(record, one.step.quantization.name));
    return candidateOf(record, machine, one, prompt, known);
  });
  return bestOf(record, machine, candidates);
}

/** Finding the context that fits is costly, so it is done only for candidates that could win with the maximum context that earns points. */
function bestOf(
  record: CatalogRecord,
  machine: Machine,
  candidates: readonly Candidate[],
): Candidate | undefined {
  let best: Candidate | undefined;
  let bestStep = 0;
  for (const candidate of candidates.toSorted((a, b) => b.score.total - a.score.total)) {
    if (best !== undefined && candidate.score.total < best.score.total) break;
    const one = withContextThatFits(record, machine, candidate);
    const step = candidates.indexOf(candidate);
    const ahead = best === undefined ? 1 : one.score.total - best.score.total || bestStep - step;
    if (ahead <= 0) continue;
    best = one;
    bestStep = step;
  }
  return best;
}

/** True if the level is the minimum or better. */
export function isAtLeast(level: FitLevel, minimum: FitLevel): boolean {
  return FIT_LEVELS.indexOf(level) <= FIT_LEVELS.indexOf(minimum);
}

interface Purpose extends FitRequest {
  readonly useCase: UseCase;
}

interface Step extends Purpose {
  readonly quantization: Quantization;
}

/** A model without any repository counts as available in both families, because users can convert it. */
function hasFiles({ gguf_sources, mlx_sources }: CatalogRecord, family: QuantizationFamily): boolean {
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
  readonly tokensPerSecond: Estimate;
  readonly prompt: Estimate | undefined;
  readonly score: FitScore;
}

/** Sizes the model with each of these quantizations, which are of one family. */
function sizedIn(
  record: CatalogRecord,
  { accelerator, budgetBytes }: Machine,
  request: Purpose,
  quantizations: readonly Quantization[],
): readonly Sized[] {
  const [first] = quantizations;
  if (first === undefined) return [];
  const { cacheType, contextSize, claimedContext = contextSize, draft } = request;
  const alone = claimEstimatorOf(record, { family: first.family, accelerator, cacheType });
  const speculation = speculationOf(record, first, draft);
  const beside = speculation === undefined ? () => 0 : draftClaims(speculation, { accelerator });
  if (alone === undefined || beside === undefined) return [];
  return quantizations.map((quantization) => {
    const file = fileSize(record, quantization);
    const claimAt = (tokens: number): number => alone(tokens, file.bytes) + beside(tokens);
    const claimBytes = claimAt(Math.max(contextSize, claimedContext));
    const share = claimBytes / budgetBytes;
    return { step: { ...request, quantization }, file, claimBytes, share, claimAt, speculation };
  });
}

/** The score assumes that the maximum context that earns points fits. */
function candidateOf(
  record: CatalogRecord,
  machine: Machine,
  sized: Sized,
  prompt: Estimate | undefined,
  measured: number | undefined,
): Candidate {
  const { step, share, speculation } = sized;
  const { quantization, cacheType, useCase, contextSize } = step;
  const tokensInUse = Math.min(contextSize, PROMPT_TOKENS);
  const input = { record, machine, quantization, cacheType, tokensInUse };
  const tokensPerSecond =
    speculation === undefined || measured !== undefined
      ? decodeSpeed(input, measured)
      : speculativeSpeed(input, speculation);
  const speed = useCase === "embedding" ? prompt : tokensPerSecond;
  const score = scoreFit({
    record,
    useCase,
    quantization,
    share,
    contextSize: enoughFor(record, step),
    speed,
  });
  return { ...sized, tokensPerSecond, prompt, score };
}

/** Corrects the score for the context that fits. Context beyond what the use case needs earns no extra points. */
function withContextThatFits(
  record: CatalogRecord,
  { budgetBytes }: Machine,
  candidate: Candidate,
): Candidate {
  const enough = enoughFor(record, candidate.step);
  const contextSize = largestContext(enough, budgetBytes, candidate.claimAt);
  if (contextSize === enough) return candidate;
  return { ...candidate, score: withContext(candidate.score, candidate.step.useCase, contextSize) };
}

function enoughFor(record: CatalogRecord, { useCase }: Purpose): number {
  return Math.min(enoughContext(useCase), record.context_length);
}

function briefOf(record: CatalogRecord, { budgetBytes }: Machine, candidate: Candidate): BriefFitness {
  const { step, claimBytes, share, tokensPerSecond, score } = candidate;
  const { name: quantization, family } = step.quantization;
  const level = fitLevel(share, {
    useCase: step.useCase,
    tokensPerSecond: tokensPerSecond.value,
    isBeyondTraining: beyondTraining(record, step) !== undefined,
  });
  return { quantization, family, level, score, claimBytes, budgetBytes, tokensPerSecond };
}

function fitnessOf(record: CatalogRecord, machine: Machine, candidate: Candidate): ModelFit {
  const { step, file, share, tokensPerSecond, prompt, claimAt, speculation } = candidate;
  const { contextSize } = step;
  const contextThatFits = largestContext(record.context_length, machine.budgetBytes, claimAt);
  const tokensInUse = Math.min(contextSize, PROMPT_TOKENS);
  return {
    model: record.name,
    ...briefOf(record, machine, candidate),
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

/** At most `limit` tokens. A claim is costly and nearly linear in the context, so the search interpolates. */
function largestContext(limit: number, budgetBytes: number, claimAt: (tokens: number) => number): number {
  if (claimAt(limit) <= budgetBytes) return limit;
  let low = MIN_CONTEXT;
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
  step: Step,
  {
    share,
    contextThatFits,
    contextSize,
    tokensPerSecond,
  }: Pick<ModelFit, "contextThatFits" | "contextSize" | "tokensPerSecond"> & { readonly share: number },
): readonly string[] {
  const { quantization, useCase } = step;
  const parts = qualityParts({ record, quantization, useCase });
  const beyond = beyondTraining(record, step);
  const percent = `${Math.round(share * 100)}% of the memory for engines`;
  return [
    ...parts.map(([why, points]) => `${why}: ${points < 0 ? "" : "+"}${points.toFixed(1)} quality`),
    share > 1 ? `needs ${percent}` : `takes ${percent}`,
    contextThatFits < contextSize
      ? `only ${contextThatFits} tokens of context fit`
      : `up to ${contextThatFits} tokens of context fit`,
    `${tokensPerSecond.value.toFixed(1)} tokens/s (${tokensPerSecond.basis}, range ${tokensPerSecond.low.toFixed(0)} to ${tokensPerSecond.high.toFixed(0)})`,
    ...(isSlow({ useCase, tokensPerSecond: tokensPerSecond.value })
      ? [`below ${READABLE_PER_SECOND} tokens/s, so marginal at best`]
      : []),
    ...(beyond === undefined ? [] : [`${beyond}, so marginal at best`]),
  ];
}

/** Measured speeds by model and quantization. A source counts only for its own model and file. */
function measuredOn(records: readonly CatalogRecord[], { measured }: Machine): ReadonlyMap<string, number> {
  if (measured.length === 0) return new Map();
  const matchName = createMatcher(records);
  return new Map(
    measured.flatMap(({ source, tokensPerSecond }) => {
      const match = matchName(source);
      if (match.at !== "one") return [];
      const quantization = quantizationIn(source) ?? match.record.quantization;
      return [[measuredKey(match.record, quantization), tokensPerSecond] as const];
    }),
  );
}

function measuredKey({ name }: CatalogRecord, quantization: string): string {
  return `${name} ${quantization.toLowerCase()}`;
}

function byScore(a: ModelFit, b: ModelFit): number {
  const isTightA = a.level === "too_tight";
  if (isTightA !== (b.level === "too_tight")) return isTightA ? 1 : -1;
  if (isTightA && a.claimBytes !== b.claimBytes) return a.claimBytes - b.claimBytes;
  return b.score.total - a.score.total || (a.model < b.model ? -1 : a.model > b.model ? 1 : 0);
}
