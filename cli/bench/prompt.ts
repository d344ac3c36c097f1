/** Prompts that no engine has seen, because it would answer them from the cache of an earlier prompt. */
import { randomInt } from "node:crypto";

const WORDS = [
  "river",
  "stone",
  "light",
  "winter",
  "engine",
  "paper",
  "garden",
  "signal",
  "harbor",
  "number",
];

/** Differs from the first word on, in every request of every run. */
export function freshPrompt(words: number): string {
  const text = Array.from({ length: words }, () => WORDS[randomInt(WORDS.length)]);
  return `${randomInt(1_000_000)}: ${text.join(" ")}`;
}
