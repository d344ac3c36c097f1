/** Weights and runtime are there: memory is made sure of, then the engine is started. Pure. */
import { formatBytes } from "../bytes.ts";
import type { ErrorCode } from "../errors.ts";
import { needOf } from "./need.ts";
import type { Desired, Observed } from "./observed.ts";
import { detectAgain } from "./plan-held.ts";
import type { ReplicaPlan } from "./step.ts";
import type { Timings } from "./timings.ts";

/** Fails closed: without a figure for the need or for the budget nothing is started. */
export function admitted(desired: Desired, observed: Observed, now: number, timings: Timings): ReplicaPlan {
  const need = needOf(desired, observed);
  if (need.at === "unknown") return waiting(need.code, need.message, timings);
  return (
    memoryMissing(need.bytes, observed, timings) ??
    heldByPressure(observed, timings) ??
    launchFailed(observed, now, timings) ??
    start(need.bytes, timings)
  );
}

function memoryMissing(needBytes: number, observed: Observed, timings: Timings): ReplicaPlan | undefined {
  const { budgetBytes, othersBytes } = observed.memory;
  if (budgetBytes === "unknown") {
    const message =
      "how much memory engines may use on this host could not be read; nothing is started until it can";
    return waiting("MemoryUnknown", message, timings);
  }
  if (othersBytes + needBytes <= budgetBytes) return memoryTaken(needBytes, observed, timings);
  const left = Math.max(0, budgetBytes - othersBytes);
  const message =
    `the engine needs ${formatBytes(needBytes)}, ` +
    `${formatBytes(left)} of ${formatBytes(budgetBytes)} left on this host; ` +
    "stop or move another service, or lower contextSize or parallelSlots";
  return waiting("InsufficientMemory", message, timings);
}

/** Within the budget, but other programs hold what the engine needs: to start it all the same would push them out. */
function memoryTaken(needBytes: number, observed: Observed, timings: Timings): ReplicaPlan | undefined {
  const { availableBytes } = observed.memory;
  if (availableBytes === undefined || needBytes <= availableBytes) return undefined;
  const message =
    `the engine needs ${formatBytes(needBytes)}, and only ${formatBytes(Math.max(0, availableBytes))} are available: ` +
    "other programs on this host hold the rest; end them, or lower contextSize or parallelSlots";
  return waiting("InsufficientMemory", message, timings);
}

/** Who fits by the sum of claims may still not start while the machine itself is short. */
function heldByPressure({ pressure }: Observed, timings: Timings): ReplicaPlan | undefined {
  return pressure.at === "held" ? waiting("MemoryPressure", pressure.because, timings) : undefined;
}

function launchFailed({ launch, runtime }: Observed, now: number, timings: Timings): ReplicaPlan | undefined {
  if (launch.at === "untried") return undefined;
  const { code: reason, message } = launch;
  if (!launch.transient) {
    // What an engine does not know its next version may.
    if (runtime.at === "present" && runtime.version !== (launch.runtimeVersion ?? runtime.version))
      return undefined;
    const steps = detectAgain(runtime, now, timings);
    return { phase: "Failed", reason, message, steps, recheckAfterMs: timings.outsideMs };
  }
  const wait = launch.retryAt - now;
  if (wait <= 0) return undefined;
  return {
    phase: "Waiting",
    reason,
    message,
    steps: [],
    recheckAfterMs: wait,
    nextTryAt: launch.retryAt,
  };
}

function start(claimBytes: number, timings: Timings): ReplicaPlan {
  return {
    phase: "Admitting",
    reason: "AdmittingMemory",
    message: `reserving ${formatBytes(claimBytes)} and a port`,
    steps: [
      { do: "reserve", claimBytes, because: "the claim fits into the host's budget" },
      { do: "start", because: "weights, memory and port are there" },
    ],
    recheckAfterMs: timings.endpointRetryMs,
  };
}

function waiting(reason: ErrorCode, message: string, timings: Timings): ReplicaPlan {
  return { phase: "Waiting", reason, message, steps: [], recheckAfterMs: timings.outsideMs };
}
