/** The words of fit levels. */
import type { StateWord } from "../../../src/console/rows.ts";

export type FitName = "perfect" | "good" | "marginal" | "too_tight";

const WORDS: Readonly<Record<FitName, StateWord>> = {
  perfect: { word: "Perfect fit", level: "ok" },
  good: { word: "Good fit", level: "ok" },
  marginal: { word: "Marginal fit", level: "warn" },
  too_tight: { word: "Does not fit", level: "bad" },
};

export function fitWord(level: FitName): StateWord {
  return WORDS[level];
}
