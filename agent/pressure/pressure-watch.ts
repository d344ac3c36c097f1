/** Reads the machine's memory periodically and applies the decisions of the pressure governor. */
import type { HostReader, MemoryReading } from "../../src/macos/host-reader.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { msToAlignedTime } from "../../src/util/shared-ticks.ts";
import type { ReplicaRunner, StartPermission } from "../replicas/context/ports.ts";
import { govern, INITIAL_GOVERNOR_STATE } from "./governor/govern.ts";
import type { GovernorLimits } from "./governor/limits.ts";
import type { GovernorPlan, PressureLevel } from "./governor/types.ts";

export interface PressureWatchOptions {
  readonly reader: Pick<HostReader, "memory">;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly limits?: GovernorLimits;
}

/** The engines that the governor may stop and start. */
export interface Governed {
  readonly runner: Pick<ReplicaRunner, "governed" | "evict" | "readmit" | "enqueueAll" | "memoryRead">;
  /** `Host.spec.memory.evictionEnabled`. */
  readonly mayEvict: () => boolean;
}

export interface MemoryAssessment {
  readonly level: PressureLevel;
  readonly because: string;
}

export interface TimedReading extends MemoryReading {
  /** When the reading began, on the monotonic clock. */
  readonly at: number;
}

export interface PressureWatch {
  /** Starts watching, until the signal; resolves after the first reading. */
  readonly start: (governed: Governed) => Promise<void>;
  /** Reads now; concurrent calls share one reading. Never rejects. */
  readonly read: () => Promise<TimedReading>;
  /** The last reading; undefined before the first. */
  readonly latest: () => TimedReading | undefined;
  /** Undefined before the first reading that succeeded. */
  readonly assessment: () => MemoryAssessment | undefined;
  readonly mayStart: (uid: string) => StartPermission;
}

const ALLOWED: StartPermission = { at: "yes" };
const NOT_READ: StartPermission = { at: "held", because: "the machine's memory has not been read yet" };

export function createPressureWatch(options: PressureWatchOptions): PressureWatch {
  const { reader, clock, log, signal } = options;
  let plan: GovernorPlan | undefined;
  /** False until a reading has succeeded: the governor starts at Normal without one. */
  let isKnown = false;
  let latest: TimedReading | undefined;
  let reading: Promise<TimedReading> | undefined;
  let cancel = (): void => {};
  signal.addEventListener("abort", () => cancel(), { once: true });

  const readNow = async (): Promise<TimedReading> => {
    const at = clock.monotonicMs();
    const memory = await reader.memory().catch(() => ({ pressure: "Unknown" as const }));
    reading = undefined;
    latest = { ...memory, at };
    return latest;
  };
  const read = (): Promise<TimedReading> => {
    reading ??= readNow();
    return reading;
  };
  const watch = async (governed: Governed): Promise<void> => {
    const seen = await read();
    if (signal.aborted) return;
    const now = clock.monotonicMs();
    const before = plan;
    const { runner, mayEvict } = governed;
    const input = { now, reading: seen, ...runner.governed(), mayEvict: mayEvict() };
    plan = govern(before?.state ?? INITIAL_GOVERNOR_STATE, input, options.limits);
    isKnown ||= seen.pressure !== "Unknown" || plan.level !== "Normal";
    if (plan.level !== (before?.level ?? "Normal"))
      log.warn({ level: plan.level, because: plan.because }, "memory pressure changed");
    applyPlan(plan, before, runner);
    runner.memoryRead();
    cancel = clock.after(msToAlignedTime(now, plan.readAgainMs), () => void watch(governed));
  };
  return {
    start: watch,
    read,
    latest: () => latest,
    assessment: () =>
      plan !== undefined && isKnown ? { level: plan.level, because: plan.because } : undefined,
    mayStart: (uid) => {
      if (plan === undefined || !isKnown) return NOT_READ;
      const { starts } = plan;
      if (starts.at === "all" || (starts.at === "one" && starts.id === uid)) return ALLOWED;
      return { at: "held", because: starts.because };
    },
  };
}

function applyPlan(plan: GovernorPlan, before: GovernorPlan | undefined, runner: Governed["runner"]): void {
  const { eviction, starts } = plan;
  if (eviction !== undefined) runner.evict(eviction.id, eviction.how, eviction.because);
  if (starts.at === "one") runner.readmit(starts.id);
  if (JSON.stringify(starts) !== JSON.stringify(before?.starts)) runner.enqueueAll();
}
