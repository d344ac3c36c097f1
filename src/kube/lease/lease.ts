/** Renews the Lease of a host in a separate loop, so that nothing else can delay the heartbeat. */
import { type BackoffOptions, retryMs } from "../../util/backoff.ts";
import type { Clock, Log } from "../../util/ports.ts";
import { isApiUnavailable } from "../errors.ts";
import type { ApiFailure, KubeClient } from "../types.ts";
import { waitMs } from "../wait.ts";
import { createLeaseClaim } from "./claim.ts";

export interface KeepLeaseOptions {
  /** Must have a timeout of a few seconds: one lost request must not cost a renewal period. */
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly name: string;
  readonly namespace: string;
  /** Must not change when the agent restarts (it is stored in the state folder), or the agent would wait for its own Lease to expire. */
  readonly holder: string;
  readonly durationSeconds?: number;
  readonly renewMs?: number;
  /** Called once per holder if another live holder has the Lease. We keep trying, and acquire it once the other stops renewing. */
  readonly onTaken?: (holder: string) => void;
  /** Called after each answered attempt, with the monotonic time of the last attempt before it that failed. */
  readonly onResponse?: (failedAtMs: number | undefined) => void;
  /** Called after each renewal. */
  readonly onRenewed?: () => void;
  readonly onFailure?: (failure: ApiFailure) => void;
}

export interface KeptLease {
  readonly isHeld: () => boolean;
  /** Monotonic time of the last successful renewal. */
  readonly renewedAtMs: () => number | undefined;
  /** Renews immediately: after a sleep, observers consider the Lease expired or soon will. */
  readonly renewNow: () => void;
}

const RETRY: BackoffOptions = { firstMs: 200, capMs: 7_000 };
const DURATION_S = 40;
const RENEW_MS = 10_000;
/** A new holder renews quickly at first, because observers need to see a change and would otherwise wait a full period. */
const FIRST_RENEWALS = 3;
const FIRST_RENEW_MS = 1_000;

/** Starts immediately and stops with `signal`. The Lease is not released but expires, because engines outlive the agent. */
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
  #mustRenewNow = false;
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
      const intervalMs = isNew ? Math.min(FIRST_RENEW_MS, renewMs) : renewMs;
      const tookMs = clock.monotonicMs() - startedMs;
      await this.#wait(this.#failures > 0 ? this.#retryMs(tookMs) : Math.max(0, intervalMs - tookMs));
    }
  }

  renewNow(): void {
    this.#mustRenewNow = true;
    this.#pause.abort();
  }

  async #wait(delayMs: number): Promise<void> {
    const { clock, signal } = this.#options;
    this.#pause = new AbortController();
    const end = (): void => this.#pause.abort();
    signal.addEventListener("abort", end, { once: true });
    if (!this.#mustRenewNow) await waitMs(clock, delayMs, this.#pause.signal);
    this.#mustRenewNow = false;
    signal.removeEventListener("abort", end);
  }

  /** Ignores a long Retry-After, because a host that waits too long counts as lost. The time of an attempt that hung counts as waiting. */
  #retryMs(tookMs: number): number {
    const fullMs = Math.min(RETRY.capMs, retryMs(this.#failures, RETRY, this.#retryAfterMs));
    return this.#retryAfterMs === undefined ? Math.max(0, fullMs - tookMs) : fullMs;
  }

  #answered(): void {
    const failedAtMs = this.#failedAtMs;
    this.#failedAtMs = undefined;
    this.#guarded(() => this.#options.onResponse?.(failedAtMs));
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
    const { clock, log, name, onFailure } = this.#options;
    if (isApiUnavailable(failure)) this.#failedAtMs = clock.monotonicMs();
    this.#failures += 1;
    this.#retryAfterMs = failure.retryAfterMs;
    // A conflict only means that another holder wrote the Lease; the next attempt reads it.
    if (this.#failures === 1 && failure.kind !== "conflict")
      log.warn({ lease: name, failure }, "lease not renewed");
    this.#guarded(() => onFailure?.(failure));
  }

  #guarded(handler: () => void): void {
    try {
      handler();
    } catch (err) {
      this.#options.log.error({ err, lease: this.#options.name }, "handler failed");
    }
  }
}
