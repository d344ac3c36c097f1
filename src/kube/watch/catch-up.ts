/** Resumes watches that are in backoff or on a dead connection, once the API server is known to answer. */
import type { Clock } from "../../util/ports.ts";
import type { KubeObject, Reflector } from "../types.ts";

export type WatchedReflector = Pick<Reflector<KubeObject>, "relist" | "retryWithin" | "lastActivityMs">;

export interface CatchUp {
  /** Reports an answered request. `failedAtMs` is the time of the last failure before it, if any. */
  readonly answered: (failedAtMs: number | undefined) => void;
}

/** All hosts notice within seconds that the server is back; their lists must not arrive at the same time. */
const SPREAD_MS = 2_000;
/** A proxy may close every idle connection, which must not cause constant lists. */
const REPLACED_AGAIN_MS = 60_000;

/**
 * After an outage, every watch that has received nothing since lists again: its connection may be open but dead, and etcd may
 * have been restored to older data. Between outages only watches in backoff retry, because a short outage may lie between
 * two renewals of the Lease.
 */
export function createCatchUp(ports: {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly reflectors: () => readonly WatchedReflector[];
  /** Number of connections that were found to be dead and replaced. */
  readonly replaced: () => number;
  /** Returns a number from 0 to 1. */
  readonly random?: () => number;
}): CatchUp {
  const { clock, signal, reflectors, replaced, random = Math.random } = ports;
  let cancel: (() => void) | undefined;
  let answeredAtMs: number | undefined;
  let relistedAtMs = Number.NEGATIVE_INFINITY;
  let replacedBefore = replaced();
  signal.addEventListener("abort", () => cancel?.(), { once: true });

  const relistSince = (failedAtMs: number): void => {
    cancel = undefined;
    for (const reflector of reflectors()) {
      if ((reflector.lastActivityMs() ?? Number.NEGATIVE_INFINITY) <= failedAtMs) reflector.relist();
    }
  };
  /** If a connection was dead at its next use, those of the watches may be dead since the last response, too. */
  const deadSince = (nowMs: number): number | undefined => {
    const isReplaced = replaced() !== replacedBefore;
    replacedBefore = replaced();
    return isReplaced && nowMs - relistedAtMs >= REPLACED_AGAIN_MS ? answeredAtMs : undefined;
  };
  return {
    answered: (failedAtMs) => {
      if (signal.aborted) return;
      const nowMs = clock.monotonicMs();
      const withinMs = random() * SPREAD_MS;
      const dead = deadSince(nowMs);
      const sinceMs = failedAtMs ?? dead;
      answeredAtMs = nowMs;
      if (sinceMs === undefined) {
        for (const reflector of reflectors()) reflector.retryWithin(withinMs);
        return;
      }
      relistedAtMs = nowMs;
      cancel?.();
      cancel = clock.after(withinMs, () => relistSince(sinceMs));
    },
  };
}
