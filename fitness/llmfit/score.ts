/** The score of llmfit 1.1.10. Pure; the clock is an argument. */

import { billions, type CatalogRecord, type Category, categoryOf } from "../catalog/record.ts";
import { round } from "../scoring/units.ts";
import { quantizationRow, TASK_SCORES } from "./tables.ts";

export interface Components {
  readonly quality: number;
  readonly speed: number;
  readonly fit: number;
  readonly context: number;
}

/** Weights of quality, speed, fit and context; sufficient tokens per second and context. */
const WEIGHTS: Readonly<Record<Category, readonly [number, number, number, number, number, number]>> = {
  General: [0.45, 0.3, 0.15, 0.1, 40, 4096],
  Coding: [0.5, 0.2, 0.15, 0.15, 40, 8192],
  Reasoning: [0.55, 0.15, 0.15, 0.15, 25, 8192],
  Chat: [0.4, 0.35, 0.15, 0.1, 40, 4096],
  Multimodal: [0.5, 0.2, 0.15, 0.15, 40, 4096],
  Embedding: [0.3, 0.4, 0.2, 0.1, 200, 512],
};
const MONTH_MS = 30.44 * 86_400_000;

interface Judged {
  readonly quantization: string;
  readonly tps: number;
  readonly required: number;
  readonly available: number;
  readonly now: number;
}

export function componentsOf(
  record: CatalogRecord,
  { quantization, tps, required, available, now }: Judged,
): { readonly total: number; readonly parts: Components } {
  const category = categoryOf(record);
  const [q, s, f, c, enough, context] = WEIGHTS[category];
  const quality = clamp(qualityOf(record, category, now) + quantizationRow(quantization).penalty);
  const speed = clamp((tps / enough) * 100);
  const over = Math.max(0, (required / available - 0.7) / 0.2);
  const fit = required > available ? 0 : 100 * Math.exp(-0.5 * over ** 2);
  const window = record.context_length >= context ? 100 : record.context_length >= context / 2 ? 70 : 30;
  const total = round(quality * q + speed * s + fit * f + window * c, 1);
  const parts = { quality: round(quality, 1), speed: round(speed, 1), fit: round(fit, 1), context: window };
  return { total, parts };
}

const BASES: readonly (readonly [below: number, points: number])[] = [
  [1, 30],
  [3, 45],
  [7, 60],
  [10, 75],
  [20, 82],
  [40, 89],
];
const FAMILIES: readonly (readonly [RegExp, number])[] = [
  [/qwen/, 2],
  [/deepseek/, 3],
  [/llama/, 2],
  [/mistral|mixtral/, 1],
  [/gemma/, 1],
  [/phi/, 0],
  [/starcoder/, 1],
];

function qualityOf(record: CatalogRecord, category: Category, now: number): number {
  const name = record.name.toLowerCase();
  const active = (record.is_moe ? record.active_parameters : undefined) ?? billions(record) * 1e9;
  const base = BASES.find(([below]) => active / 1e9 < below)?.[1] ?? 95;
  const family = FAMILIES.find(([pattern]) => pattern.test(name))?.[1] ?? 0;
  const generation = generationOf(name, record.architecture ?? "");
  const bonus = generation === undefined ? 0 : Math.min(9, Math.max(0, (generation - 1) * 3));
  return base + family + bonus + newness(record, now) + taskPoints(name, category, billions(record));
}

function newness({ release_date }: CatalogRecord, now: number): number {
  const released = Date.parse(release_date ?? "");
  if (Number.isNaN(released)) return 0;
  const months = Math.max(0, (now - released) / MONTH_MS);
  if (months < 3) return 3;
  return months < 9 ? 1.5 : 0;
}

function taskPoints(name: string, category: Category, billion: number): number {
  const at = { Coding: 1, Reasoning: 2, Chat: 3 }[category as string];
  const known = TASK_SCORES.filter(([family]) => name.includes(family)).sort(
    (a, b) => b[0].length - a[0].length,
  )[0];
  if (at !== undefined && known !== undefined)
    return Math.min(9, Math.max(-8, (Number(known[at]) - 72) * 0.4));
  if (category === "Coding") return /code|starcoder|wizard/.test(name) ? 6 : 0;
  if (category === "Reasoning") return billion >= 13 ? 5 : 0;
  return category === "Multimodal" && name.includes("vision") ? 6 : 0;
}

type Generation = (name: string, architecture: string) => number;
const bySuffix =
  (family: string, ...numbers: readonly number[]): Generation =>
  (name) =>
    numbers.find((number) =>
      new RegExp(`${family}[-_ ]?v?${String(number).replace(".", "\\.")}(?![\\d.]\\d)`).test(name),
    ) ?? 1;
const GENERATIONS: readonly (readonly [family: RegExp, Generation])[] = [
  [
    /deepseek/,
    (name, architecture) => Number((/v([234])/.exec(architecture) ?? /v([234])/.exec(name))?.[1] ?? 1),
  ],
  [/qwen/, qwenGeneration],
  [
    /llama/,
    (name, architecture) =>
      architecture.includes("4") ? 4 : bySuffix("llama", 4, 3.3, 3.2, 3.1, 3, 2)(name, architecture),
  ],
  [/gemma/, bySuffix("gemma", 4, 3, 2)],
  [
    /phi/,
    (name, architecture) => (architecture === "phimoe" ? 3 : bySuffix("phi", 4, 3, 2)(name, architecture)),
  ],
  [/mistral|mixtral/, () => 1],
  [/falcon/, bySuffix("falcon", 3)],
  [/granite/, bySuffix("granite", 4)],
];

/** Undefined for families without generations. */
function generationOf(name: string, architecture: string): number | undefined {
  if (architecture === "cohere2") return 2;
  return GENERATIONS.find(([family]) => family.test(name))?.[1](name, architecture);
}

function qwenGeneration(name: string, architecture: string): number {
  const minor = [3.8, 3.6, 3.5, 2.5].find((number) => name.includes(`qwen${number}`));
  if (minor !== undefined) return minor;
  if (architecture.includes("3_5")) return 3.5;
  if (architecture.includes("3_next")) return 3.8;
  if (architecture.includes("3")) return 3;
  return architecture.includes("2") ? 2 : 1;
}

function clamp(points: number): number {
  return Math.min(100, Math.max(0, points));
}
