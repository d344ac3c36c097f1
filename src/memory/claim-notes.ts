/** What a person should know about a claim that is not refused for it. */
import type { GgufFacts } from "../api/fields/gguf.ts";
import { type ClaimSettings, sizesOf } from "./claim-settings.ts";

/** Slots of one engine that llama-server takes. */
const MOST_SLOTS = 256;

/** One sentence each; empty where nothing is odd. */
export function claimNotes({ contextLength = 0 }: GgufFacts, settings: ClaimSettings): string[] {
  const { contextSize, slots, isUnified } = sizesOf(settings);
  const perSlot = isUnified ? contextSize : Math.floor(contextSize / slots);
  const notes: string[] = [];
  if (contextLength > 0 && perSlot > contextLength) {
    notes.push(
      `a request could use ${perSlot} tokens, but the model was trained for ${contextLength}: the engine caps it there and takes the memory for all of them`,
    );
  }
  if (slots > MOST_SLOTS) notes.push(`llama-server takes at most ${MOST_SLOTS} slots, not ${slots}`);
  return notes;
}
