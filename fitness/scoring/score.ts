/** Scores a fit from 0 to 100: quality, speed, fit and context, weighted by use case. Pure. */

import type { Quantization } from "../catalog/quantizations.ts";
import { billions, type CatalogRecord, categoryOf, hasReleaseDay, perRecord } from "../catalog/record.ts";
import { activeBillions, type Estimate } from "./speed.ts";

export const USE_CASES = ["general", "chat", "coding", "reasoning", "vision", "embedding"] as const;
export type UseCase = (typeof USE_CASES)[number];

export const FIT_LEVELS = ["perfect", "good", "marginal", "too_tight"] as const;
export type FitLevel = (typeof FIT_LEVELS)[number];

export interface FitScore {
  readonly total: number;
  readonly quality: number;
  readonly speed: number;
  readonly fit: number;
  readonly context: number;
}

interface Weights {
  readonly quality: number;
  readonly speed: number;
  readonly fit: number;
  readonly context: number;
  /** Tokens per second above which speed scores no more: of responses, for embeddings of prompts. */
  readonly enoughPerSecond: number;
  readonly enoughContext: number;
}

const weights = (
  quality: number,
  speed: number,
  fit: number,
  context: number,
  enough: readonly [number, number],
) => ({ quality, speed, fit, context, enoughPerSecond: enough[0], enoughContext: enough[1] });

/** Each row adds up to 1. */
const WEIGHTS: Readonly<Record<UseCase, Weights>> = {
  general: weights(0.45, 0.25, 0.2, 0.1, [30, 8192]),
  chat: weights(0.4, 0.3, 0.2, 0.1, [25, 8192]),
  coding: weights(0.5, 0.2, 0.15, 0.15, [30, 32_768]),
  reasoning: weights(0.5, 0.2, 0.15, 0.15, [30, 16_384]),
  vision: weights(0.5, 0.2, 0.2, 0.1, [25, 8192]),
  embedding: weights(0.4, 0.3, 0.2, 0.1, [2000, 512]),
};

/** Up to this share of the budget the fit has full points. */
const ROOMY = 0.7;
const GOOD = 0.85;
/** Tokens per second below which a response is slower than people read, which is about four words a second: a marginal fit at best. */
export const READABLE_PER_SECOND = 5;
const FULL_POINTS = 40;
const SIZE_POINTS = { ofOneBillion: 36, perTenfold: 26, least: 5, most: 95 };
const NEWNESS = { since: Date.UTC(2023, 6, 1), perYear: 5, most: 15 };
const YEAR_MS = 365.25 * 86_400_000;
const MADE_FOR_IT = 8;
const MADE_FOR_SOMETHING_ELSE = -6;
const PURPOSES: Readonly<Record<string, UseCase>> = {
  Embedding: "embedding",
  Coding: "coding",
  Multimodal: "vision",
  Reasoning: "reasoning",
  Chat: "chat",
};

export interface ScoreInput {
  readonly record: CatalogRecord;
  readonly useCase: UseCase;
  readonly quantization: Quantization;
  /** The claim as a share of the budget. */
  readonly share: number;
  /** Tokens of context that fit. */
  readonly contextSize: number;
  /** Speed of responses; for embeddings, of prompts. */
  readonly speed: Estimate | undefined;
}

export function scoreFit(input: ScoreInput): FitScore {
  const { useCase, share, contextSize, speed } = input;
  const row = WEIGHTS[useCase];
  const parts = {
    quality: clamp(qualityPoints(input)),
    speed: 100 * Math.min(1, (speed?.value ?? 0) / row.enoughPerSecond),
    fit: fitPoints(share),
    context: contextPoints(useCase, contextSize),
  };
  return { total: share > 1 ? 0 : totalOf(parts, row), ...parts };
}

/** The same with another context. */
export function withContext(score: FitScore, useCase: UseCase, contextSize: number): FitScore {
  const { quality, speed, fit } = score;
  const parts = { quality, speed, fit, context: contextPoints(useCase, contextSize) };
  return { total: score.total === 0 ? 0 : totalOf(parts, WEIGHTS[useCase]), ...parts };
}

function totalOf({ quality, speed, fit, context }: Omit<FitScore, "total">, row: Weights): number {
  return row.quality * quality + row.speed * speed + row.fit * fit + row.context * context;
}

function contextPoints(useCase: UseCase, contextSize: number): number {
  return 100 * Math.min(1, contextSize / WEIGHTS[useCase].enoughContext);
}

function qualityPoints({ record, quantization, useCase }: ScoreInput): number {
  return sizePoints(record) + newness(record) - quantization.penalty + taskPoints(record, useCase);
}

/** The parts of the quality with their points. */
export function qualityParts({
  record,
  quantization,
  useCase,
}: Pick<ScoreInput, "record" | "quantization" | "useCase">): readonly (readonly [
  why: string,
  points: number,
])[] {
  const task = taskPoints(record, useCase);
  return [
    [`as large as a dense model of ${effectiveBillions(record).toFixed(1)}B`, sizePoints(record)],
    [hasReleaseDay(record) ? `released ${record.release_date}` : "release day not known", newness(record)],
    [`quantization ${quantization.name}`, -quantization.penalty],
    ...(task === 0
      ? []
      : [[task > 0 ? `made for ${useCase}` : `made for ${record.use_case}`, task] as const]),
  ];
}

/** Geometric mean of all and active parameters. */
function effectiveBillions(record: CatalogRecord): number {
  return Math.sqrt(billions(record) * Math.min(billions(record), activeBillions(record)));
}

const sizePoints = perRecord((record) => {
  const { ofOneBillion, perTenfold, least, most } = SIZE_POINTS;
  return Math.min(most, Math.max(least, ofOneBillion + perTenfold * Math.log10(effectiveBillions(record))));
});

export function enoughContext(useCase: UseCase): number {
  return WEIGHTS[useCase].enoughContext;
}

interface AnswerSpeed {
  readonly useCase: UseCase;
  readonly tokensPerSecond: number;
}

interface Answers extends AnswerSpeed {
  /** True if memory is claimed for a context that the model cannot use. */
  readonly isBeyondTraining: boolean;
}

/** By the share of the budget that is claimed, and by the speed and the context of responses if there are any. */
export function fitLevel(share: number, answers?: Answers): FitLevel {
  if (share > 1) return "too_tight";
  if (share > GOOD || (answers !== undefined && (isSlow(answers) || answers.isBeyondTraining)))
    return "marginal";
  return share > ROOMY ? "good" : "perfect";
}

/** Embedding models give no responses to read. */
export function isSlow({ useCase, tokensPerSecond }: AnswerSpeed): boolean {
  return useCase !== "embedding" && tokensPerSecond < READABLE_PER_SECOND;
}

/** The use case for which the model was made. */
export function useCaseOf(record: CatalogRecord): UseCase {
  return PURPOSES[categoryOf(record)] ?? "general";
}

/** Embedding models are only for embeddings, other models are not. Every model is for its own use case. */
export function isFor(record: CatalogRecord, useCase: UseCase | undefined): boolean {
  if (useCase === undefined) return true;
  const purposes = purposesOf(record);
  if (purposes.includes("embedding") || useCase === "embedding")
    return useCase === "embedding" && purposes.includes("embedding");
  if (purposes.includes("moderation")) return false;
  return useCase !== "vision" || purposes.includes("vision") || record.capabilities.includes("vision");
}

/** llmfit's records have whole sentences in `use_case`. */
const purposesOf = perRecord(({ use_case }): readonly string[] => {
  const found: readonly (readonly [string, RegExp])[] = [
    ["embedding", /embed/],
    ["moderation", /moderation|guard/],
    ["coding", /cod(e|ing)/],
    ["vision", /vision|multimodal/],
    ["reasoning", /reason|chain-of-thought/],
    ["chat", /chat|instruction/],
  ];
  const lower = use_case.toLowerCase();
  return found.filter(([, pattern]) => pattern.test(lower)).map(([purpose]) => purpose);
});

function taskPoints(record: CatalogRecord, useCase: UseCase): number {
  if (useCase === "general" || useCase === "embedding") return 0;
  const purposes = purposesOf(record);
  if (purposes.includes(useCase)) return MADE_FOR_IT;
  const isGeneral = purposes.length === 0 || purposes.includes("chat");
  return isGeneral ? 0 : MADE_FOR_SOMETHING_ELSE;
}

const newness = perRecord((record) => {
  if (!hasReleaseDay(record)) return 0;
  const years = (Date.parse(record.release_date ?? "") - NEWNESS.since) / YEAR_MS;
  return Math.min(NEWNESS.most, Math.max(0, NEWNESS.perYear * years));
});

function fitPoints(share: number): number {
  if (share > 1) return 0;
  return share <= ROOMY ? 100 : 100 - ((100 - FULL_POINTS) * (share - ROOMY)) / (1 - ROOMY);
}

function clamp(points: number): number {
  return Math.min(100, Math.max(0, points));
}
