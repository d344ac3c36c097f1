/** Plans before the start: checks backoff, runtime, weights, address and memory, in this order. */
import type { ErrorCode } from "../../../src/api/errors.ts";
import { claimRemedy } from "../../../src/capacity/largest-part.ts";
import { formatBytes } from "../../../src/util/bytes.ts";
import type { Desired, ModelState, Need, ObservedReplica, RuntimeState } from "../evidence/observed.ts";
import { isStillTerminal } from "../evidence/terminal-failures.ts";
import type { Timings } from "../evidence/timings.ts";
import type { Because, ReplicaPlan, Withdraw } from "../state/step.ts";
import { memoryNeedOf } from "./need.ts";

export type PrepareStep = Because &
  (
    | { readonly do: "detectRuntime" }
    | { readonly do: "fetch" }
    | { readonly do: "reserve"; readonly claimBytes: number }
    | { readonly do: "start" }
  );

type Plan = ReplicaPlan<PrepareStep>;

/** Plans for a replica that should serve and has no process. */
export function planPrepare(
  desired: Desired,
  observed: ObservedReplica,
  now: number,
  timings: Timings,
): ReplicaPlan<PrepareStep | Withdraw> {
  const plan =
    planBackoff(observed, now, timings) ??
    runtimeMissing(observed, now, timings) ??
    modelMissing(observed, now, timings) ??
    addressMissing(observed, timings) ??
    planAdmission(desired, observed, now, timings);
  // A slice left over from an earlier run would route to a port without a listener.
  if (observed.slice.state !== "ready" && observed.slice.state !== "stale") return plan;
  const withdraw: Withdraw = { do: "withdraw", because: "no engine is running behind the endpoint" };
  return { ...plan, steps: [withdraw, ...plan.steps] };
}

function runtimeMissing(observed: ObservedReplica, now: number, timings: Timings): Plan | undefined {
  const { runtime } = observed;
  const detect: PrepareStep = {
    do: "detectRuntime",
    because: "it is unknown whether the runtime is installed",
  };
  switch (runtime.at) {
    case "present":
      return undefined;
    case "unknown":
      return {
        phase: "Pending",
        reason: "DetectingRuntime",
        message: "looking for the runtime on this host",
        steps: [detect],
        recheckAfterMs: timings.endpointRetryMs,
      };
    case "missing": {
      const wait = runtime.checkedAt + timings.correctionMs - now;
      const redetect: PrepareStep = { do: "detectRuntime", because: "it may have been installed since" };
      return {
        phase: "Waiting",
        reason: runtime.code,
        message: runtime.message,
        steps: wait <= 0 ? [redetect] : [],
        recheckAfterMs: wait <= 0 ? timings.correctionMs : wait,
      };
    }
    case "unsupported":
      return {
        phase: "Failed",
        reason: "RuntimeNotSupported",
        message: runtime.message,
        steps: [],
        recheckAfterMs: timings.fetchRetryMaxMs,
      };
    default:
      return runtime satisfies never;
  }
}

function modelMissing(observed: ObservedReplica, now: number, timings: Timings): Plan | undefined {
  const { model } = observed;
  const recheckAfterMs = timings.outsideMs;
  switch (model.at) {
    case "stored":
      return undefined;
    case "unknown":
      return {
        phase: "Pending",
        reason: "ResolvingModel",
        message: "looking for the weights on this host",
        steps: [],
        recheckAfterMs: timings.endpointRetryMs,
      };
    case "absent":
      return {
        phase: "Fetching",
        reason: "DownloadingModel",
        message: "fetching the weights",
        steps: [{ do: "fetch", because: "the weights are not on this host" }],
        recheckAfterMs,
      };
    case "fetching":
      return {
        phase: "Fetching",
        reason: "DownloadingModel",
        message:
          model.queuedBehind === undefined
            ? "fetching the weights"
            : `download queued: ${model.queuedBehind} other ${model.queuedBehind === 1 ? "download" : "downloads"} of this host first; sources.maxDownloads sets how many run at once`,
        steps: [],
        recheckAfterMs: timings.progressMs,
      };
    case "failed":
      return fetchFailed(model, now, timings);
    default:
      return model satisfies never;
  }
}

function fetchFailed(model: Extract<ModelState, { at: "failed" }>, now: number, timings: Timings): Plan {
  const { code, message } = model;
  const wait = model.retryAt - now;
  if (!model.transient) {
    // The recheck inspects a file on the host again without a step: it may have been corrected.
    const recheckAfterMs = wait > 0 ? Math.min(wait, timings.correctionMs) : timings.correctionMs;
    return { phase: "Failed", reason: code, message, steps: [], recheckAfterMs };
  }
  const retry: PrepareStep = { do: "fetch", because: "the last attempt failed with a transient error" };
  const waiting = { phase: "Waiting", reason: code, message } as const;
  if (wait <= 0) return { ...waiting, steps: [retry], recheckAfterMs: timings.outsideMs };
  // The recheck comes before the retry, in case the user makes the correction.
  const recheckAfterMs = Math.min(wait, timings.correctionMs);
  return { ...waiting, steps: [], recheckAfterMs, nextTryAt: model.retryAt };
}

function addressMissing(observed: ObservedReplica, timings: Timings): Plan | undefined {
  if (observed.hasAddress) return undefined;
  return {
    phase: "Waiting",
    reason: "HostAddressMissing",
    message: "the host has no address to serve on; see the Ready condition of the Host",
    steps: [],
    recheckAfterMs: timings.correctionMs,
  };
}

export function planBackoff(observed: ObservedReplica, now: number, timings: Timings): Plan | undefined {
  const { crashes, runtime, model } = observed;
  const exit = crashes.lastExit;
  const { terminal } = crashes;
  if (terminal !== undefined && exit !== undefined && isStillTerminal(terminal, runtime, model)) {
    return {
      phase: "Failed",
      reason: exit.reason,
      message: exit.message,
      steps: retryAfterChange(observed, now, timings),
      recheckAfterMs: timings.correctionMs,
    };
  }
  if (crashes.backoffUntil === undefined || now >= crashes.backoffUntil) return undefined;
  return {
    phase: "Backoff",
    reason: exit?.reason ?? "EngineEndUnknown",
    message: exit?.message ?? "the engine exited",
    steps: [],
    recheckAfterMs: crashes.backoffUntil - now,
    nextTryAt: crashes.backoffUntil,
  };
}

/** Another runtime or other weights may work: detects and fetches them again after a change. */
function retryAfterChange({ runtime, model }: ObservedReplica, now: number, timings: Timings): PrepareStep[] {
  // A checksum mismatch shows only after a complete download, so it is not retried. Every other failure shows at the start.
  const isRetryDue = model.at === "failed" && model.code !== "ChecksumMismatch" && now >= model.retryAt;
  const isFetchDue =
    model.at === "absent" || isRetryDue || (model.at === "stored" && model.isReplaced === true);
  const fetch: PrepareStep = { do: "fetch", because: "the weights may have been corrected" };
  return [...redetectRuntime(runtime, now, timings), ...(isFetchDue ? [fetch] : [])];
}

/** An upgraded engine may accept settings that the previous version refused. */
export function redetectRuntime(runtime: RuntimeState, now: number, timings: Timings): PrepareStep[] {
  const isDue =
    runtime.at === "unknown" || ("checkedAt" in runtime && now >= runtime.checkedAt + timings.correctionMs);
  return isDue ? [{ do: "detectRuntime", because: "another version of the engine may accept it" }] : [];
}

/** Fails closed: nothing is started while the need or the budget is unknown. */
export function planAdmission(
  desired: Desired,
  observed: ObservedReplica,
  now: number,
  timings: Timings,
): Plan {
  const need = memoryNeedOf(desired, observed);
  if (need.at === "unknown") return waiting(need.code, need.message, timings);
  return (
    memoryMissing(need, observed, timings) ??
    blockedByPressure(observed, timings) ??
    launchFailed(observed, now, timings) ??
    start(need.bytes, timings)
  );
}

type KnownNeed = Extract<Need, { at: "known" }>;

function memoryMissing(need: KnownNeed, observed: ObservedReplica, timings: Timings): Plan | undefined {
  const { budgetBytes, othersBytes } = observed.memory;
  if (budgetBytes === "unread") {
    return {
      phase: "Pending",
      reason: "AdmittingMemory",
      message: "reading the host's memory",
      steps: [],
      recheckAfterMs: timings.endpointRetryMs,
    };
  }
  if (budgetBytes === "unknown") {
    const message = "cannot read the host's memory; engines start once the agent can read it";
    return waiting("MemoryUnknown", message, timings);
  }
  if (othersBytes + need.bytes <= budgetBytes) return memoryTaken(need, observed, timings);
  const left = Math.max(0, budgetBytes - othersBytes);
  const message =
    `the engine needs ${formatBytes(need.bytes)}, ` +
    `${formatBytes(left)} of ${formatBytes(budgetBytes)} left on this host; ` +
    `stop or move another service, or ${claimRemedy(need.memory)}`;
  return waiting("InsufficientMemory", message, timings);
}

/** The claim fits the budget, but other programs use the memory: starting the engine would push them out. */
function memoryTaken(need: KnownNeed, observed: ObservedReplica, timings: Timings): Plan | undefined {
  const { availableBytes } = observed.memory;
  if (availableBytes === undefined || need.bytes <= availableBytes) return undefined;
  const message =
    `the engine needs ${formatBytes(need.bytes)}, and only ${formatBytes(Math.max(0, availableBytes))} is available: ` +
    `other programs on this host use the rest; quit them, or ${claimRemedy(need.memory)}`;
  return waiting("InsufficientMemory", message, timings);
}

/** A replica that fits the budget must not start while the machine is short of memory. */
function blockedByPressure({ pressure }: ObservedReplica, timings: Timings): Plan | undefined {
  return pressure.at === "held" ? waiting("MemoryPressure", pressure.because, timings) : undefined;
}

function launchFailed({ launch, runtime }: ObservedReplica, now: number, timings: Timings): Plan | undefined {
  if (launch.at === "untried") return undefined;
  const { code: reason, message } = launch;
  if (!launch.transient) {
    // Another version of the engine may accept what this one refused.
    if (runtime.at === "present" && runtime.version !== (launch.runtimeVersion ?? runtime.version))
      return undefined;
    const steps = redetectRuntime(runtime, now, timings);
    return { phase: "Failed", reason, message, steps, recheckAfterMs: timings.correctionMs };
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

function start(claimBytes: number, timings: Timings): Plan {
  return {
    phase: "Admitting",
    reason: "AdmittingMemory",
    message: `reserving ${formatBytes(claimBytes)} and a port`,
    steps: [
      { do: "reserve", claimBytes, because: "the claim fits the host's budget" },
      { do: "start", because: "weights, memory and port are ready" },
    ],
    recheckAfterMs: timings.endpointRetryMs,
  };
}

function waiting(reason: ErrorCode, message: string, timings: Timings): Plan {
  return { phase: "Waiting", reason, message, steps: [], recheckAfterMs: timings.correctionMs };
}
