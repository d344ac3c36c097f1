/** The suspicion that an engine fails all its requests: raised by a log line, confirmed or cleared by one real request. */
import { hasProgressed, type Work } from "./work.ts";

export type Suspicion =
  | { readonly at: "none" }
  /** `probedAt`: time of the last request, which neither confirmed nor cleared the suspicion. */
  | { readonly at: "suspected"; readonly line: string; readonly probedAt?: number }
  | { readonly at: "confirmed"; readonly line: string; readonly message: string }
  | { readonly at: "cleared"; readonly line: string; readonly probedAt: number };

/** Ignores a new line while a suspicion is open: an engine that fails its requests logs one in every scan. */
export function raiseSuspicion(
  before: Suspicion,
  line: string | undefined,
  now: number,
  everyMs: number,
): Suspicion {
  if (line === undefined) return before;
  switch (before.at) {
    case "none":
      return { at: "suspected", line };
    case "suspected":
    case "confirmed":
      return before;
    case "cleared":
      return now < before.probedAt + everyMs ? before : { at: "suspected", line };
    default:
      return before satisfies never;
  }
}

export type ProofReply = "ok" | { readonly failed: string };

/** Matches an error of the engine itself, not the rejection of a bad request. */
const FAILED_ANSWER = /^HTTP (?!4\d\d)/;

/**
 * Assesses an answer. A rejected request is unclear. So is a missing answer if the engine made progress with other requests
 * meanwhile, or if its progress is unknown.
 */
export function assessReply(
  answer: ProofReply,
  probe: { readonly at: number; readonly isLate: boolean; readonly before: Work; readonly after: Work },
): ProofReply | "unclear" {
  if (answer === "ok") return answer;
  const isClear = probe.isLate ? madeNoProgress(probe) : FAILED_ANSWER.test(answer.failed);
  return isClear ? answer : "unclear";
}

function madeNoProgress({ at, before, after }: { at: number; before: Work; after: Work }): boolean {
  const { last, lastAt } = after;
  if (before.last === undefined || last === undefined || lastAt === undefined) return false;
  return lastAt > at && !hasProgressed(before.last, last);
}

/** The suspicion after the assessed answer. */
export function judgeSuspicion(before: Suspicion, answer: ProofReply | "unclear", now: number): Suspicion {
  if (before.at !== "suspected") return before;
  const { line } = before;
  if (answer === "ok") return { at: "cleared", line, probedAt: now };
  if (answer === "unclear") return { at: "suspected", line, probedAt: now };
  return { at: "confirmed", line, message: answer.failed };
}
