/** Verifies stored models in the background: each file once in so many days, slowly, oldest first. */

import { waitMs } from "../../src/kube/wait.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { msToAlignedTime } from "../../src/util/shared-ticks.ts";
import type { ModelStore } from "../store/types.ts";
import type { VerifiedFile } from "../store/verification.ts";

export interface VerifierOptions {
  readonly store: Pick<ModelStore, "verify">;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** 0: never. */
  readonly everyDays: number;
  readonly bytesPerSecond: number;
  /** False while the machine is short of memory: reading fills its file cache. */
  readonly mayRun: () => boolean;
  readonly onDamaged: (file: VerifiedFile) => void;
}

const DAY_MS = 86_400_000;
const LOOK_MS = 600_000;

/** Resolves once the signal is aborted. */
export async function verifyInBackground(options: VerifierOptions): Promise<void> {
  const { clock, log, signal, everyDays, mayRun } = options;
  while (everyDays > 0 && !signal.aborted) {
    await waitMs(clock, msToAlignedTime(clock.monotonicMs(), LOOK_MS), signal);
    if (signal.aborted || !mayRun()) continue;
    await verifyDue(options).catch((err: unknown) => {
      if (!signal.aborted) log.warn({ err }, "cannot verify stored models");
    });
  }
}

async function verifyDue(options: VerifierOptions): Promise<void> {
  const { store, clock, log, signal, everyDays, bytesPerSecond, mayRun, onDamaged } = options;
  const beforeMs = clock.nowMs() - everyDays * DAY_MS;
  const files = await store.verify({ signal, beforeMs, bytesPerSecond, onDamaged, mayContinue: mayRun });
  if (files.length > 0) log.info({ files: files.length }, "stored models verified");
}
