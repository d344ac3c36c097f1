/** Leader election on a Lease: there is at most one leader, and a leader that cannot renew stops before another may start. */
import type { Clock, Log } from "../../util/ports.ts";
import { isApiUnavailable } from "../errors.ts";
import type { KubeClient } from "../types.ts";
import { waitMs } from "../wait.ts";
import { createLeaseClaim, type LeaseClaim } from "./claim.ts";

export interface LeaderElectionOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends the candidacy; a leader releases the Lease first. */
  readonly signal: AbortSignal;
  readonly name: string;
  readonly namespace: string;
  /** Unique to this process. */
  readonly identity: string;
  readonly durationSeconds?: number;
  /** A leader that has not renewed for this long stops leading; shorter than the duration. */
  readonly renewDeadlineMs?: number;
  readonly retryMs?: number;
  /** Runs while we lead. The signal is aborted when we stop leading. `mayWrite` is false once another candidate may lead. */
  readonly onLead: (signal: AbortSignal, mayWrite: () => boolean) => void | Promise<void>;
  readonly onLost?: () => void;
  /** Called after each answered renewal, with the monotonic time of the last renewal before it that failed. */
  readonly onResponse?: (failedAtMs: number | undefined) => void;
}

const DURATION_S = 15;
const RENEW_DEADLINE_MS = 10_000;
const RETRY_MS = 2_000;

/** Resolves once `signal` is aborted and the Lease is released. */
export async function runLeaderElection(options: LeaderElectionOptions): Promise<void> {
  const { clock, signal, retryMs = RETRY_MS } = options;
  const claim = createLeaseClaim({
    ...options,
    holder: options.identity,
    durationSeconds: options.durationSeconds ?? DURATION_S,
  });
  while (!signal.aborted) {
    const startedMs = clock.monotonicMs();
    const result = await claim.attempt();
    if (result.outcome === "held") await lead(options, claim, startedMs);
    else if (result.outcome === "failed") options.log.debug({ failure: result.failure }, "no candidacy");
    // The jitter keeps candidates from retrying in lockstep. Never waits longer than the holder's remaining time.
    const leftMs = result.outcome === "taken" ? result.forMs : retryMs * 2;
    await waitMs(clock, Math.min(leftMs, retryMs * (1 + Math.random() * 0.2)), signal);
  }
}

async function lead(options: LeaderElectionOptions, claim: LeaseClaim, heldSinceMs: number): Promise<void> {
  const { clock, log, name, identity, signal, onLead, onLost } = options;
  const { renewDeadlineMs = RENEW_DEADLINE_MS } = options;
  const leading = new AbortController();
  const ended = new AbortController();
  const stop = () => ended.abort();
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  log.info({ lease: name, identity }, "leading");
  let hasFailed = false;
  const term: Term = { renewedAtMs: heldSinceMs };
  // A process that has slept continues its passes, and learns only from its next renewal that another process leads.
  const mayWrite = () => !leading.signal.aborted && clock.monotonicMs() < term.renewedAtMs + renewDeadlineMs;
  const work = Promise.resolve()
    .then(() => onLead(leading.signal, mayWrite))
    .catch((err: unknown) => {
      log.error({ err, lease: name }, "the leader's work failed");
      hasFailed = true; // a leader that no longer works must not keep other candidates out
      stop();
    });
  const because = await keepLeading({ ...options, signal: ended.signal }, claim, term);
  signal.removeEventListener("abort", stop);
  leading.abort(new Error(because));
  log.info({ lease: name, identity, because }, "no longer leading");
  await work;
  if (signal.aborted || hasFailed) await claim.release();
  onLost?.();
}

interface Term {
  /** Time before the request of the last renewal, so the server's copy is at least that recent. */
  renewedAtMs: number;
}

/** Returns the reason why we no longer lead. */
async function keepLeading(options: LeaderElectionOptions, claim: LeaseClaim, term: Term): Promise<string> {
  const { clock, signal, retryMs = RETRY_MS, renewDeadlineMs = RENEW_DEADLINE_MS, onResponse } = options;
  let failedAtMs: number | undefined;
  for (;;) {
    await waitMs(clock, retryMs, signal);
    if (signal.aborted) return "stopped";
    const startedMs = clock.monotonicMs();
    const leftMs = term.renewedAtMs + renewDeadlineMs - startedMs;
    const result = await orTimeout(claim.attempt(), leftMs, clock, signal);
    if (signal.aborted) return "stopped";
    if (result === "timeout") return "the lease could not be renewed in time";
    if (result.outcome === "taken") return `the lease is held by ${result.holder}`;
    if (result.outcome === "failed") {
      if (isApiUnavailable(result.failure)) failedAtMs = clock.monotonicMs();
      continue;
    }
    term.renewedAtMs = startedMs;
    onResponse?.(failedAtMs);
    failedAtMs = undefined;
  }
}

// A request that hangs must not delay the deadline.
async function orTimeout<T>(
  work: Promise<T>,
  limitMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<T | "timeout"> {
  const ended = new AbortController();
  const stop = () => ended.abort();
  signal.addEventListener("abort", stop, { once: true });
  const timeout = waitMs(clock, Math.max(0, limitMs), ended.signal).then(() => "timeout" as const);
  try {
    return await Promise.race([work, timeout]);
  } finally {
    stop();
    signal.removeEventListener("abort", stop);
  }
}
