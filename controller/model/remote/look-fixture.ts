/** Looks at loopback sources, for tests. */
import { parseSource } from "../../../src/source/source.ts";
import { remoteConfig } from "../config.ts";
import { LookFailure } from "./failure.ts";
import { createLook, type Found, type LookRequest } from "./look.ts";

/** Shorter than a test may take, and longer than a busy machine needs for a look. */
const limits = { allowLoopback: true, stallMs: 10_000, lookMs: 15_000 };

/** One look; `config` replaces the limits. */
export function lookNow(source: string, more: Partial<LookRequest> = {}, config = {}): Promise<Found> {
  const parsed = parseSource(source);
  if (parsed.kind !== "http" && parsed.kind !== "hf") throw new Error("not a remote source");
  const signal = new AbortController().signal;
  return createLook(remoteConfig({ ...limits, ...config }))({
    source: parsed,
    spec: {},
    secretHeaders: {},
    signal,
    ...more,
  });
}

/** The failure of a look that has to fail. */
export async function failureOf(
  looking: Promise<unknown>,
): Promise<{ code: string; isPassing: boolean; message: string }> {
  const error = await looking.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof LookFailure)) throw error ?? new Error("it did not fail");
  return { code: error.reason.code, isPassing: error.isPassing, message: error.reason.message };
}
