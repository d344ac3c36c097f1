/** Reads the machine's memory again and again and carries out what the pressure governor decides. */
import { untilBeat } from "../../src/beats.ts";
import { calm, govern } from "../../src/memory/governor/govern.ts";
import type { GovernorLimits } from "../../src/memory/governor/limits.ts";
import type { GovernorPlan, Level } from "../../src/memory/governor/types.ts";
import type { Clock, Log } from "../../src/ports.ts";
import type { HostReader, MemoryReading } from "../host/host-reader.ts";
import type { ReplicaRunner, StartPermission } from "../replicas/ports.ts";

export interface PressureWatchOptions {
  readonly reader: Pick<HostReader, "memory">;
  readonly runner: Pick<ReplicaRunner, "governed" | "evict" | "readmit" | "enqueueAll">;
  /** `Host.spec.memory.evictionEnabled`. */
  readonly mayEvict: () => boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly limits?: GovernorLimits;
}

export interface MemoryJudgement {
  readonly level: Level;
  readonly because: string;
}

export interface PressureWatch {
  /** Begins; resolves after the first reading. Ends with the signal. */
  readonly start: () => Promise<void>;
  /** The newest reading; read anew where the watch does not run. */
  readonly memory: () => Promise<MemoryReading>;
  /** Undefined before the first reading. */
  readonly judgement: () => MemoryJudgement | undefined;
  readonly mayStart: (uid: string) => StartPermission;
}

const YES: StartPermission = { at: "yes" };
const NOT_READ: StartPermission = { at: "held", because: "the machine's memory has not been read yet" };

export function createPressureWatch(options: PressureWatchOptions): PressureWatch {
  const { reader, clock, signal } = options;
  let plan: GovernorPlan | undefined;
  let latest: MemoryReading | undefined;
  let cancel = (): void => {};
  signal.addEventListener("abort", () => cancel(), { once: true });

  const look = async (): Promise<void> => {
    latest = await reader.memory().catch(() => ({ pressure: "Unknown" as const }));
    if (signal.aborted) return;
    const now = clock.monotonicMs();
    const before = plan;
    const reading = { at: now, ...latest };
    const input = { now, reading, ...options.runner.governed(), mayEvict: options.mayEvict() };
    plan = govern(before?.state ?? calm, input, options.limits);
    obey(plan, before, options);
    cancel = clock.after(untilBeat(now, plan.readAgainMs), () => void look());
  };
  return {
    start: look,
    memory: async () => latest ?? reader.memory(),
    judgement: () => plan && { level: plan.level, because: plan.because },
    mayStart: (uid) => {
      if (plan === undefined) return NOT_READ;
      const { starts } = plan;
      if (starts.at === "all" || (starts.at === "one" && starts.id === uid)) return YES;
      return { at: "held", because: starts.because };
    },
  };
}

function obey(plan: GovernorPlan, before: GovernorPlan | undefined, options: PressureWatchOptions): void {
  const { runner, log } = options;
  const { eviction, starts, level, because } = plan;
  if (level !== (before?.level ?? "Normal")) log.warn({ level, because }, "memory pressure changed");
  if (eviction !== undefined) runner.evict(eviction.id, eviction.how, eviction.because);
  if (starts.at === "one") runner.readmit(starts.id);
  if (JSON.stringify(starts) !== JSON.stringify(before?.starts)) runner.enqueueAll();
}
