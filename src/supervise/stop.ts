/** Stops a supervised process: TERM, TERM again, KILL, and then KILL to the rest of its session. */
import type { Clock } from "../util/ports.ts";
import type { SignalResult, SupervisedProcess } from "./supervised.ts";

/** Interval after which a signal without effect is sent again. */
const KILL_AGAIN_MS = 1_000;
/** The second TERM is sent after this fraction of the time to stop: after the first, a server may only be finishing idle connections. */
const SECOND_TERM_SHARE = 1 / 3;

/** The way to stop: by a deadline, or with an immediate kill. A kill replaces a stop, never the other way round. */
export type StopMode = "stopping" | "killing";

interface StopPorts {
  readonly clock: Clock;
  readonly onSignal?: (signal: "TERM" | "KILL", result: SignalResult) => void;
}

/** Call `proceed` after each change of the process, and `close` to leave it as it is. */
export class ProcessStop {
  readonly #process: Pick<SupervisedProcess, "state" | "signal" | "killGroup">;
  readonly #ports: StopPorts;
  #mode: StopMode | undefined;
  #requestedAt = 0;
  #deadline = Number.POSITIVE_INFINITY;
  #terms = 0;
  #cancel: (() => void) | undefined;

  constructor(process: Pick<SupervisedProcess, "state" | "signal" | "killGroup">, ports: StopPorts) {
    this.#process = process;
    this.#ports = ports;
  }

  /** Undefined if no stop was requested. */
  get mode(): StopMode | undefined {
    return this.#mode;
  }

  /** The earliest deadline (monotonic ms) wins. */
  stopBy(deadlineMs: number): void {
    if (this.#mode === "killing" || deadlineMs >= this.#deadline) return;
    if (this.#mode === undefined) this.#requestedAt = this.#ports.clock.monotonicMs();
    this.#mode = "stopping";
    this.#deadline = deadlineMs;
    this.proceed();
  }

  killNow(): void {
    if (this.#mode === "killing") return;
    this.#mode = "killing";
    this.proceed();
  }

  /** Takes the next step of a requested stop, and sets the timer for the step after it. */
  proceed(): void {
    this.close();
    if (this.#mode === undefined) return;
    const nextInMs = this.#step(this.#ports.clock.monotonicMs());
    if (nextInMs !== undefined) this.#cancel = this.#ports.clock.after(nextInMs, () => this.proceed());
  }

  close(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  /** Milliseconds until the next step; undefined if no timer is needed. */
  #step(now: number): number | undefined {
    const mustEnd = this.#mode === "killing" || now >= this.#deadline;
    switch (this.#process.state().at) {
      case "starting":
        if (!mustEnd) return this.#deadline - now;
        // The pid is not known yet, so the shim is killed with everything that it may have started.
        this.#process.killGroup();
        return KILL_AGAIN_MS;
      case "running":
        // Only the main process is killed, so that the shim can still record the exit status.
        if (!mustEnd) return this.#terminate(now);
        this.#signal("KILL");
        return KILL_AGAIN_MS;
      case "ended":
        this.#process.killGroup();
        return KILL_AGAIN_MS;
      case "gone":
        return undefined;
    }
  }

  #terminate(now: number): number {
    const secondAt = this.#requestedAt + (this.#deadline - this.#requestedAt) * SECOND_TERM_SHARE;
    const isDue = this.#terms === 0 || (this.#terms === 1 && now >= secondAt);
    if (isDue) {
      this.#terms += 1;
      this.#signal("TERM");
    }
    return Math.max(1, (this.#terms === 1 ? secondAt : this.#deadline) - now);
  }

  #signal(signal: "TERM" | "KILL"): void {
    void this.#process.signal(signal).then((result) => this.#ports.onSignal?.(signal, result));
  }
}
