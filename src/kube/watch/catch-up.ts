/** Once the API server is known to answer, resumes watches that are in backoff or on a dead connection. */
import type { Clock } from "../../util/ports.ts";
import type { KubeObject, Reflector } from "../types.ts";

export type WatchedReflector = Pick<Reflector<KubeObject>, "relist" | "retryWithin" | "lastSignMs">;

export interface CatchUp {
  /** A request was answered; `failedAtMs` is when the last one before it failed, where one did. */
  readonly answered: (failedAtMs: number | undefined) => void;
}

/** All hosts learn within seconds of each other that the server is back; they must not all list in one instant. */
const SPREAD_MS = 2_000;
/** A proxy may close every idle connection: no reason to list all the time. */
const REPLACED_AGAIN_MS = 60_000;

/**
 * After an outage every watch that has received nothing since lists again: its connection may be open but dead,
 * and etcd may have been restored to older data. Between outages only watches in backoff retry: an outage may have begun and
 * ended between two renewals of the Lease.
 */
export function createCatchUp(ports: {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly reflectors: () => readonly WatchedReflector[];
  /** How many connections turned out to be dead when they were used; each was replaced. */
  readonly replaced: () => number;
  /** In 0..1. */
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
      if ((reflector.lastSignMs() ?? Number.NEGATIVE_INFINITY) <= failedAtMs) reflector.relist();
    }
  };
  /** A connection that was dead at its next use says the same of the watches' ones, from the last answer on. */
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
