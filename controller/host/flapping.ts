/** Hosts that come and go: for a while nothing new is placed on them. Pure; what is remembered goes in and comes out. */
import type { Verdict } from "./liveness.ts";

/** So many changes between reachable and unreachable, within the window, are flapping. */
export const FLAP_CHANGES = 3;
export const FLAP_WINDOW_MS = 10 * 60_000;
/** How long after the last of them nothing new is placed. */
export const FLAP_HOLD_MS = 10 * 60_000;

export interface FlapBook {
  readonly isUp?: boolean | undefined;
  /** When it changed; the newest last. */
  readonly changesMs: readonly number[];
  /** Taken over from a controller before this one, which knew why. */
  readonly heldUntilMs?: number | undefined;
}

export interface Flapping {
  readonly changes: number;
  readonly untilMs: number;
}

/** What a new controller takes over: it knows the last state and, where the host was held, holds it afresh. */
export function openFlapBook(isUp: boolean | undefined, wasFlapping: boolean, now: number): FlapBook {
  return { isUp, changesMs: [], ...(wasFlapping ? { heldUntilMs: now + FLAP_HOLD_MS } : {}) };
}

/** Only a verdict on the host itself is a change: not its absence, nor an outage of everything. */
export function noteVerdict(book: FlapBook, { at }: Verdict, now: number): FlapBook {
  const isUp = at === "reachable" ? true : at === "unreachable" || at === "lost" ? false : undefined;
  if (isUp === undefined || isUp === book.isUp) return book;
  if (book.isUp === undefined) return { ...book, isUp };
  const recent = book.changesMs.filter((atMs) => now - atMs < FLAP_WINDOW_MS + FLAP_HOLD_MS);
  return { ...book, isUp, changesMs: [...recent, now] };
}

/** Undefined where the host is steady. */
export function readFlapping({ changesMs, heldUntilMs = 0 }: FlapBook, now: number): Flapping | undefined {
  let untilMs = heldUntilMs;
  let changes = 0;
  for (const [index, atMs] of changesMs.entries()) {
    const together = changesMs.slice(0, index + 1).filter((other) => atMs - other < FLAP_WINDOW_MS).length;
    if (together < FLAP_CHANGES) continue;
    changes = together;
    untilMs = Math.max(untilMs, atMs + FLAP_HOLD_MS);
  }
  return untilMs > now ? { changes, untilMs } : undefined;
}
