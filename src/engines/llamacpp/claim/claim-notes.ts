/** What a person should know about a claim that is not refused for it. */

import type { EngineSettings } from "../../../api/engine-settings.ts";
import type { GgufFacts } from "../../../api/fields/gguf.ts";
import { type ClaimSettings, sizesOf } from "./claim-settings.ts";

/** Slots of one engine that llama-server takes. */
const MAX_SLOTS = 256;

/** One sentence each; empty where nothing is odd. */
export function claimNotes(facts: GgufFacts, settings: ClaimSettings): string[] {
  const { slots } = sizesOf(settings);
  const beyond = contextBeyondTraining(facts, settings);
  const notes = beyond === undefined ? [] : [beyond];
  if (slots > MAX_SLOTS) notes.push(`llama-server takes at most ${MAX_SLOTS} slots, not ${slots}`);
  return notes;
}

interface ContextSettings extends ClaimSettings {
  readonly ropeScaling?: EngineSettings["ropeScaling"];
}

/** Undefined where each request's context is within what the model was trained for or is stretched to, or if that is unknown. */
export function contextBeyondTraining(
  { contextLength = 0 }: Pick<GgufFacts, "contextLength">,
  settings: ContextSettings,
): string | undefined {
  const { contextSize, slots, isUnified } = sizesOf(settings);
  const perSlot = isUnified ? contextSize : Math.floor(contextSize / slots);
  const usable = stretched(contextLength, settings.ropeScaling);
  if (contextLength <= 0 || perSlot <= usable) return undefined;
  const enough = isUnified ? usable : usable * slots;
  return `a request could use ${perSlot} tokens, but the model was trained for ${contextLength}${
    usable > contextLength ? ` and is stretched to ${usable}` : ""
  }: the engine caps it there and takes the memory for all of them; a contextSize of ${enough} is enough`;
}

/** As llama-server has it: yarn moves its limit, linear scaling does not. */
function stretched(contextLength: number, rope: EngineSettings["ropeScaling"]): number {
  if (rope?.type !== "yarn") return contextLength;
  const factor = Number(rope.factor ?? 1);
  const limit = Math.floor((rope.originalContext ?? contextLength) * factor);
  return Number.isSafeInteger(limit) ? Math.max(contextLength, limit) : contextLength;
}
