/** No process yet: weights, runtime and memory are made sure of, in this order, before anything is started. */
import type { Desired, ModelState, Observed } from "./observed.ts";
import { admitted } from "./plan-admit.ts";
import { heldBack } from "./plan-held.ts";
import type { ReplicaPlan, Step } from "./step.ts";
import type { Timings } from "./timings.ts";

/** Plans for a replica that should serve and of which nothing runs. */
export function planPrepare(
  desired: Desired,
  observed: Observed,
  now: number,
  timings: Timings,
): ReplicaPlan {
  const plan =
    heldBack(observed, now, timings) ??
    runtimeMissing(observed, now, timings) ??
    modelMissing(observed, now, timings) ??
    addressMissing(observed, timings) ??
    admitted(desired, observed, now, timings);
  // A slice left over from an earlier run would route to a port nobody listens on.
  return observed.slice.state === "ready" || observed.slice.state === "stale"
    ? { ...plan, steps: [{ do: "withdraw", because: "no engine runs behind the endpoint" }, ...plan.steps] }
    : plan;
}

function runtimeMissing(observed: Observed, now: number, timings: Timings): ReplicaPlan | undefined {
  const { runtime } = observed;
  const detect: Step = { do: "detectRuntime", because: "whether the runtime is installed is not known" };
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
      const wait = runtime.checkedAt + timings.outsideMs - now;
      const again: Step = { do: "detectRuntime", because: "it may have been installed since" };
      return {
        phase: "Waiting",
        reason: runtime.code,
        message: runtime.message,
        steps: wait <= 0 ? [again] : [],
        recheckAfterMs: wait <= 0 ? timings.outsideMs : wait,
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

function modelMissing(observed: Observed, now: number, timings: Timings): ReplicaPlan | undefined {
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
        message: "fetching the weights",
        steps: [],
        recheckAfterMs: timings.progressMs,
      };
    case "failed":
      return fetchFailed(model, now, timings);
    default:
      return model satisfies never;
  }
}

function fetchFailed(
  model: Extract<ModelState, { at: "failed" }>,
  now: number,
  timings: Timings,
): ReplicaPlan {
  const { code, message } = model;
  const wait = model.retryAt - now;
  if (!model.transient) {
    // A file on the host is looked at again then, without a step: it may have been corrected.
    const recheckAfterMs = wait > 0 ? wait : timings.outsideMs;
    return { phase: "Failed", reason: code, message, steps: [], recheckAfterMs };
  }
  const retry: Step = { do: "fetch", because: "the last attempt failed in a way that may pass" };
  const waiting = { phase: "Waiting", reason: code, message } as const;
  if (wait <= 0) return { ...waiting, steps: [retry], recheckAfterMs: timings.outsideMs };
  return { ...waiting, steps: [], recheckAfterMs: wait, nextTryAt: model.retryAt };
}

function addressMissing(observed: Observed, timings: Timings): ReplicaPlan | undefined {
  if (observed.hasAddress) return undefined;
  return {
    phase: "Waiting",
    reason: "HostAddressMissing",
    message: "the host has no address to serve on; its condition Ready says why and what to do",
    steps: [],
    recheckAfterMs: timings.outsideMs,
  };
}
