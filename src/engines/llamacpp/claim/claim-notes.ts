/** Notes on unusual settings that do not invalidate a claim. */

import type { EngineSettings } from "../../../api/engine-settings.ts";
import type { GgufFacts } from "../../../api/fields/gguf.ts";
import { type ClaimSettings, sizesOf } from "./claim-settings.ts";

/** Maximum number of slots of llama-server. */
const MAX_SLOTS = 256;

/** Returns a sentence for each unusual setting. */
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

/** Undefined if the context of each request is within the trained or extended length, or if that length is unknown. */
export function contextBeyondTraining(
  { contextLength = 0 }: Pick<GgufFacts, "contextLength">,
  settings: ContextSettings,
): string | undefined {
  const { contextSize, slots, isUnified } = sizesOf(settings);
  const perSlot = isUnified ? contextSize : Math.floor(contextSize / slots);
  const usable = extendedLength(contextLength, settings.ropeScaling);
  if (contextLength <= 0 || perSlot <= usable) return undefined;
  const enough = isUnified ? usable : usable * slots;
  return `a request could use ${perSlot} tokens, but the model was trained for ${contextLength}${
    usable > contextLength ? ` and is extended to ${usable}` : ""
  }: the engine caps it there and takes the memory for all of them; a contextSize of ${enough} is enough`;
}

/** The limit of llama-server, which yarn extends and linear scaling does not. */
function extendedLength(contextLength: number, rope: EngineSettings["ropeScaling"]): number {
  if (rope?.type !== "yarn") return contextLength;
  const factor = Number(rope.factor ?? 1);
  const limit = Math.floor((rope.originalContext ?? contextLength) * factor);
  return Number.isSafeInteger(limit) ? Math.max(contextLength, limit) : contextLength;
}
