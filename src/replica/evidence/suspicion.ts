/** Lines in the log that mean an engine may fail all its requests, and what one real request said to that. */

export type Suspicion =
  | { readonly at: "none" }
  /** `askedAt`: the last request neither proved nor disproved it. */
  | { readonly at: "suspected"; readonly line: string; readonly askedAt?: number }
  | { readonly at: "confirmed"; readonly line: string; readonly message: string }
  | { readonly at: "cleared"; readonly line: string; readonly askedAt: number };

/** A new line counts once nothing is open; while requests are being failed there is one in every look. */
export function suspect(
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
      return now < before.askedAt + everyMs ? before : { at: "suspected", line };
    default:
      return before satisfies never;
  }
}

/** What the request said. One that the engine had no time for says nothing. */
export function judge(
  before: Suspicion,
  answer: "ok" | "unclear" | { readonly failed: string },
  now: number,
): Suspicion {
  if (before.at !== "suspected") return before;
  const { line } = before;
  if (answer === "ok") return { at: "cleared", line, askedAt: now };
  if (answer === "unclear") return { at: "suspected", line, askedAt: now };
  return { at: "confirmed", line, message: answer.failed };
}
