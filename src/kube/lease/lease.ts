/** Keeping the Lease of a host: a loop of its own, so that nothing else can delay the heartbeat. */
import { type BackoffOptions, retryMs } from "../../util/backoff.ts";
import type { Clock, Log } from "../../util/ports.ts";
import { isApiUnavailable } from "../errors.ts";
import type { ApiFailure, KubeClient } from "../types.ts";
import { waitMs } from "../wait.ts";
import { createLeaseClaim } from "./claim.ts";

export interface KeepLeaseOptions {
  /** With a timeout of a few seconds: one lost request must not cost a renewal period. */
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly name: string;
  readonly namespace: string;
  /** Stays the same over restarts of the same agent (keep it in the state folder), or a restart would have to outwait itself. */
  readonly holder: string;
  readonly durationSeconds?: number;
  readonly renewMs?: number;
  /** Another live holder has it; said once per holder. We keep trying, and take it only when the other has gone quiet. */
  readonly onTaken?: (holder: string) => void;
  /** After each attempt that the server answered, whatever it said; with the monotonic time of the last one before that it did not. */
  readonly onAnswered?: (failedAtMs: number | undefined) => void;
  /** After each renewal. */
  readonly onRenewed?: () => void;
  readonly onTrouble?: (failure: ApiFailure) => void;
}

export interface KeptLease {
  readonly isHeld: () => boolean;
  /** Monotonic time of the last successful renewal. */
  readonly renewedAtMs: () => number | undefined;
  /** Does not wait for the next time: after a sleep every observer has counted the Lease out, or soon will. */
  readonly renewNow: () => void;
}

const RETRY: BackoffOptions = { firstMs: 200, capMs: 7_000 };
const DURATION_S = 40;
const RENEW_MS = 10_000;
/** A new holder renews quickly at first: observers that judge by changes need to see one, and would wait a whole period. */
const FIRST_RENEWALS = 3;
const FIRST_RENEW_MS = 1_000;

/** Starts at once; stops with `signal`. The Lease is not released: engines outlive the agent, and the Lease expires. */
export function keepLease(options: KeepLeaseOptions): KeptLease {
  const renewer = new LeaseRenewer(options);
  void renewer.run();
  return {
    isHeld: () => renewer.isHeld,
    renewedAtMs: () => renewer.renewedAtMs,
    renewNow: () => renewer.renewNow(),
  };
}

class LeaseRenewer {
  isHeld = false;
  renewedAtMs: number | undefined;
  readonly #options: KeepLeaseOptions;
  #failures = 0;
  #retryAfterMs: number | undefined;
  #renewals = 0;
  #other: string | undefined;
  #pause = new AbortController();
  #isDue = false;
  #failedAtMs: number | undefined;

  constructor(options: KeepLeaseOptions) {
    this.#options = options;
  }

  async run(): Promise<void> {
    const { clock, signal, durationSeconds = DURATION_S, renewMs = RENEW_MS } = this.#options;
    const claim = createLeaseClaim({ ...this.#options, durationSeconds });
    while (!signal.aborted) {
      const startedMs = clock.monotonicMs();
      const result = await claim.attempt();
      if (signal.aborted) return;
      switch (result.outcome) {
        case "held":
          this.#onHeld();
          break;
        case "taken":
          this.#onTaken(result.holder);
          break;
        case "failed":
          this.#onFailed(result.failure);
          break;
        default:
          result satisfies never;
      }
      const isNew = this.isHeld && this.#renewals <= FIRST_RENEWALS;
      const wantedMs = isNew ? Math.min(FIRST_RENEW_MS, renewMs) : renewMs;
      const tookMs = clock.monotonicMs() - startedMs;
      await this.#wait(this.#failures > 0 ? this.#retryMs(tookMs) : Math.max(0, wantedMs - tookMs));
    }
  }

  renewNow(): void {
    this.#isDue = true;
    this.#pause.abort();
  }

  async #wait(delayMs: number): Promise<void> {
    const { clock, signal } = this.#options;
    this.#pause = new AbortController();
    const end = (): void => this.#pause.abort();
    signal.addEventListener("abort", end, { once: true });
    if (!this.#isDue) await waitMs(clock, delayMs, this.#pause.signal);
    this.#isDue = false;
    signal.removeEventListener("abort", end);
  }

  /** Whatever a server says, a host that waits too long counts as gone. An attempt that hung has waited already. */
  #retryMs(tookMs: number): number {
    const fullMs = Math.min(RETRY.capMs, retryMs(this.#failures, RETRY, this.#retryAfterMs));
    return this.#retryAfterMs === undefined ? Math.max(0, fullMs - tookMs) : fullMs;
  }

  #answered(): void {
    const failedAtMs = this.#failedAtMs;
    this.#failedAtMs = undefined;
    this.#guarded(() => this.#options.onAnswered?.(failedAtMs));
  }

  #onHeld(): void {
    const { clock, log, name, onRenewed } = this.#options;
    if (!this.isHeld) log.info({ lease: name }, "lease is ours");
    this.isHeld = true;
    this.#renewals += 1;
    this.renewedAtMs = clock.monotonicMs();
    this.#failures = 0;
    this.#other = undefined;
    this.#guarded(() => onRenewed?.());
    this.#answered();
  }

  #onTaken(holder: string): void {
    const { log, name, onTaken } = this.#options;
    this.isHeld = false;
    this.#renewals = 0;
    this.#failures = 0;
    this.#answered();
    if (this.#other === holder) return;
    this.#other = holder;
    log.warn({ lease: name, holder }, "lease is held by another");
    this.#guarded(() => onTaken?.(holder));
  }

  #onFailed(failure: ApiFailure): void {
    const { clock, log, name, onTrouble } = this.#options;
    if (isApiUnavailable(failure)) this.#failedAtMs = clock.monotonicMs();
    this.#failures += 1;
    this.#retryAfterMs = failure.retryAfterMs;
    // A conflict says only that another holder wrote it; the next attempt reads which.
    if (this.#failures === 1 && failure.kind !== "conflict")
      log.warn({ lease: name, failure }, "lease not renewed");
    this.#guarded(() => onTrouble?.(failure));
  }

  #guarded(handler: () => void): void {
    try {
      handler();
    } catch (err) {
      this.#options.log.error({ err, lease: this.#options.name }, "handler failed");
    }
  }
}
