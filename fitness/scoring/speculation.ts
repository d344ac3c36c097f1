/** Speculative decoding: a small model proposes tokens, which the large one verifies in one step. Pure. */

import { bytesPerToken, fileSize, type Quantization, quantizationOf } from "../catalog/quantizations.ts";
import type { CatalogRecord } from "../catalog/record.ts";
import { claimEstimatorOf } from "./claim.ts";
import type { Machine } from "./machine.ts";
import {
  activeBillions,
  decodeMs,
  type Estimate,
  estimate,
  promptMsPerToken,
  type SpeedInput,
} from "./speed.ts";

export interface Draft {
  readonly record: CatalogRecord;
  /** Tokens that it proposes in one step. */
  readonly tokens: number;
}

/** Default number of proposed tokens. */
export const DRAFT_TOKENS = 3;
/** Assumed share of accepted tokens; it depends on the text. */
const ACCEPTED = 0.7;
/** Quantization of the draft's file. */
const DRAFT_FILE = quantizationOf("Q4_K_M");

export interface Speculation extends Draft {
  readonly file: Quantization;
}

/** Undefined if the draft cannot help: another vocabulary, not smaller, or no GGUF. */
export function speculationOf(
  record: CatalogRecord,
  { family }: Quantization,
  draft: Draft | undefined,
): Speculation | undefined {
  if (draft === undefined || DRAFT_FILE === undefined || family !== "gguf") return undefined;
  const hasSameTokens = record.vocab_size !== undefined && record.vocab_size === draft.record.vocab_size;
  const isSmaller = activeBillions(draft.record) < activeBillions(record);
  return hasSameTokens && isSmaller ? { ...draft, file: DRAFT_FILE } : undefined;
}

/** Bytes that the draft needs in addition to the model, by context. Undefined if its shapes are unknown. */
export function draftClaims(
  { record, file }: Speculation,
  { accelerator }: Pick<Machine, "accelerator">,
): ((contextSize: number) => number) | undefined {
  const { bytes } = fileSize(record, file);
  const claims = claimEstimatorOf(record, { family: "gguf", accelerator, cacheType: "f16" });
  return claims && ((contextSize) => claims(contextSize, bytes));
}

/** Tokens per second. The accepted share is a guess, so the estimate is too. */
export function speculativeSpeed(input: SpeedInput, { record, tokens, file }: Speculation): Estimate {
  const proposing = tokens * decodeMs({ ...input, record, quantization: file, cacheType: "f16" });
  const accepted = (1 - ACCEPTED ** (tokens + 1)) / (1 - ACCEPTED);
  return estimate((1000 * accepted) / (proposing + checkingMs(input, tokens)), "guessed");
}

/** The weights are read once for all tokens of a step, but each token uses different experts and its own arithmetic. */
function checkingMs(input: SpeedInput, tokens: number): number {
  const { record, machine, quantization } = input;
  const once = decodeMs(input);
  const arithmetic = tokens * (promptMsPerToken(record, machine) ?? 0);
  if (record.num_experts === undefined) return once + arithmetic;
  const each = bytesPerToken(record, quantization);
  const read = Math.min(fileSize(record, quantization).bytes, each * (tokens + 1));
  return once * (read / each) + arithmetic;
}
