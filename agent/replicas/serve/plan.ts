/** Plans for a running process that should serve: prove that it is ready, announce it, watch it, detect a hang. */
import {
  beginForcedStop,
  type EndStep,
  endingOf,
  isForced,
  planEnding,
  planForcedStop,
} from "../end/plan.ts";
import type { Desired, ObservedReplica } from "../evidence/observed.ts";
import type { Timings } from "../evidence/timings.ts";
import type { Because, ReplicaPlan, ReplicaReason, Withdraw } from "../state/step.ts";
import {
  type EvidenceInput,
  engineStartLimit,
  findFailure,
  requestTimeoutMs,
  weightsBytes,
} from "./failure.ts";
import {
  type DueProbe,
  livenessProbe,
  type ProbeTickStep,
  startProbe,
  startProbeMs,
  withTickSteps,
} from "./probe-schedule.ts";

export type ServeStep =
  | ProbeTickStep
  | (Because &
      (
        | { readonly do: "probeRequest"; readonly timeoutMs: number }
        | { readonly do: "proveAgain"; readonly timeoutMs: number }
        | { readonly do: "measureFootprint" }
        | { readonly do: "adjustClaim"; readonly claimBytes: number }
        | { readonly do: "setEndpoint"; readonly port: number }
        | { readonly do: "markReady" }
        | { readonly do: "cancelStop" }
      ));

type Plan = ReplicaPlan<ServeStep | Withdraw>;
type ServingPlan = ReplicaPlan<ServeStep | EndStep | Withdraw>;

/** Called from the moment the process can be probed, or a shared daemon loads its model. */
export function planServing(
  desired: Desired,
  observed: ObservedReplica,
  now: number,
  timings: Timings,
): ServingPlan {
  const { record } = observed;
  if (record === undefined) return unrecorded(timings);
  const frame = { desired, observed, record, now, timings };
  if (record.stop !== undefined) {
    if (isForced(record.stop.why)) return planForcedStop(record.stop, observed, now, timings);
    if (endingOf(observed) !== undefined) return planEnding(observed, now, timings);
    const cancel: ServeStep = { do: "cancelStop", because: "the replica should run again" };
    const plan = serve({ ...frame, record: { ...record, stop: undefined } });
    return { ...plan, steps: [cancel, ...plan.steps] };
  }
  return serve(frame);
}

function serve(frame: EvidenceInput): ServingPlan {
  const { observed } = frame;
  const failure = findFailure(frame);
  if (failure !== undefined) return beginForcedStop(failure, observed, frame.now, frame.timings);
  if (frame.record.readyAt === undefined && observed.health.healthyAt === undefined) return loading(frame);
  if (frame.record.readyAt === undefined && observed.request.at !== "ok") return planTestRequest(frame);
  // Before the first list an absent address only means that a new agent does not know it yet.
  if (!observed.hasAddress && observed.wasListed) return unreachable(frame);
  if (isRouteLost(frame)) return unrouted(frame);
  switch (observed.slice.state) {
    case "ready":
      return ready(frame);
    case "unknown":
      // The agent has just started and has not read its slices: a Ready engine stays Ready, and nothing can be written yet.
      if (frame.record.readyAt !== undefined) return ready(frame);
      return publishing(frame, "PublishingEndpoint", "waiting for the first list of EndpointSlices", []);
    case "missing":
      return publishing(frame, "EndpointMissing", "the controller has not created the EndpointSlice yet", []);
    case "unwritten":
    case "stale":
    case "withdrawn":
      return announce(frame);
    default:
      return observed.slice.state satisfies never;
  }
}

function loading(frame: EvidenceInput): Plan {
  const { now, record, timings } = frame;
  // A shared daemon may list the model before it has loaded it.
  const probe: DueProbe =
    frame.observed.run.at === "starting"
      ? { steps: [], dueInMs: Number.POSITIVE_INFINITY }
      : withTickSteps(
          startProbe(frame.observed.health, startProbeMs(timings, now - record.startedAt), now),
          frame.observed,
          now,
          timings,
        );
  return {
    phase: "Starting",
    reason: "LoadingModel",
    message: "the engine is loading its weights",
    steps: [...withdrawStale(frame), ...probe.steps],
    recheckAfterMs: Math.max(1, Math.min(probe.dueInMs, engineStartLimit(frame) - now)),
  };
}

function planTestRequest(frame: EvidenceInput): Plan {
  const { observed, now, timings } = frame;
  const { request } = observed;
  const wait = request.at === "failed" ? request.lastAt + timings.requestRetryMs - now : 0;
  const timeoutMs = requestTimeoutMs(timings, weightsBytes(frame));
  const probeRequest: ServeStep = {
    do: "probeRequest",
    timeoutMs,
    because: "a healthy engine may still fail requests",
  };
  const probe = probeStep(frame);
  return {
    phase: "Starting",
    reason: "ProvingRequest",
    message:
      request.at === "failed" ? `a real request failed: ${request.message}` : "sending one real request",
    steps: [...withdrawStale(frame), ...(wait <= 0 ? [probeRequest] : []), ...probe.steps],
    recheckAfterMs:
      wait <= 0 ? Math.min(probe.dueInMs, timings.requestRetryMs) : Math.min(probe.dueInMs, wait),
  };
}

/** During an outage of the API server the previous engine's announcement may have outlived that engine. */
function withdrawStale({ observed }: EvidenceInput): readonly Withdraw[] {
  const { state } = observed.slice;
  if (state !== "ready" && state !== "stale") return [];
  return [{ do: "withdraw", because: "this engine has not answered a real request yet" }];
}

function announce(frame: EvidenceInput): Plan {
  const { observed, record } = frame;
  if (!observed.wasListed) {
    return publishing(
      frame,
      "AwaitingFirstList",
      "announcing the engine after the first list of this host's replicas",
      [],
    );
  }
  // An engine that was ready before this agent, or before the machine slept, may have hung since then.
  const { lastProbeAt, failuresInARow } = observed.health;
  const isUnchecked = observed.route !== undefined && observed.route.checkedAt === undefined;
  if (lastProbeAt === undefined || failuresInARow > 0 || isUnchecked) {
    const message = "announcing the engine once it passes a health probe";
    return publishing(frame, "PublishingEndpoint", message, []);
  }
  const set: ServeStep = {
    do: "setEndpoint",
    port: record.port,
    because: "the engine answered a real request",
  };
  const error = observed.slice.lastError;
  return error === undefined
    ? publishing(frame, "PublishingEndpoint", "announcing the endpoint", [set])
    : publishing(frame, "EndpointRefused", `cannot write the endpoint: ${error}`, [set]);
}

function publishing(
  frame: EvidenceInput,
  reason: ReplicaReason,
  message: string,
  first: readonly ServeStep[],
): Plan {
  const { timings } = frame;
  const probe = probeStep(frame);
  return {
    phase: "Starting",
    reason,
    message,
    steps: [...first, ...probe.steps],
    recheckAfterMs: Math.min(probe.dueInMs, timings.endpointRetryMs),
  };
}

function ready(frame: EvidenceInput): Plan {
  const { observed } = frame;
  const probe = probeStep(frame);
  const measure = measureStep(frame);
  const prove = proveAgainStep(frame);
  const mark: ServeStep[] =
    frame.record.readyAt === undefined
      ? [{ do: "markReady", because: "the API server acknowledged the endpoint" }]
      : [];
  const message = "the engine answers and its endpoint is announced";
  const secretProblem = observed.secrets?.problem;
  return {
    phase: "Ready",
    reason: "Serving",
    message: secretProblem === undefined ? message : `${message}; ${secretProblem}`,
    steps: [...mark, ...probe.steps, ...prove, ...measure.steps],
    recheckAfterMs: Math.min(probe.dueInMs, measure.dueInMs),
  };
}

/** Only a request shows whether the logged errors affect one request or all that follow. */
function proveAgainStep(frame: EvidenceInput): readonly ServeStep[] {
  const { observed, timings, now } = frame;
  const { suspicion } = observed;
  if (suspicion.at !== "suspected") return [];
  if (suspicion.probedAt !== undefined && now < suspicion.probedAt + timings.proveAgainMs) return [];
  const timeoutMs = requestTimeoutMs(timings, weightsBytes(frame));
  return [{ do: "proveAgain", timeoutMs, because: `its log says "${suspicion.line}"` }];
}

/** Measures rarely: the figure is for admission and status, and on some systems reading it requires a subprocess. */
function measureStep(frame: EvidenceInput): {
  readonly steps: readonly ServeStep[];
  readonly dueInMs: number;
} {
  const { observed, timings, now } = frame;
  const { footprint } = observed;
  const everyMs = mayHaveChanged(frame) ? timings.footprintMs : timings.idleFootprintMs;
  const dueAt = footprint === undefined ? now : footprint.lastAt + everyMs;
  if (now < dueAt) return { steps: [], dueInMs: dueAt - now };
  const because = "the actual footprint is reserved if it exceeds the claim";
  return { steps: [{ do: "measureFootprint", because }], dueInMs: timings.footprintMs };
}

/** Memory grows with requests, and some engines release it minutes after the last one. Under pressure each figure counts. */
function mayHaveChanged({ observed, timings }: EvidenceInput): boolean {
  const { footprint, idleSince, pressure } = observed;
  if (footprint?.bytes === undefined || idleSince === undefined || pressure.at !== "none") return true;
  return footprint.lastAt - idleSince < timings.footprintMs;
}

/** An announced engine gets enough time for an exited gate to be restarted. */
function isRouteLost(frame: EvidenceInput): boolean {
  const { observed, now, timings } = frame;
  const { failingSince } = observed.route ?? {};
  if (failingSince === undefined) return false;
  return !mayBeAnnounced(frame) || now >= failingSince + timings.routeMs;
}

function unrouted(frame: EvidenceInput): Plan {
  const { route } = frame.observed;
  return withdrawn(frame, {
    reason: "GateUnavailable",
    message: `the engine is running, but the gate does not pass requests to it: ${route?.problem}`,
    because: "clients cannot reach it through the gate",
  });
}

/** A missing network does not mean that the engine hangs. */
function unreachable(frame: EvidenceInput): Plan {
  const { movesInMs } = frame.observed;
  const hasNoAddress = movesInMs === undefined;
  return withdrawn(
    frame,
    {
      reason: "HostAddressMissing",
      message: hasNoAddress
        ? "the engine is running, but its host has no address to serve on; see the Ready condition of the Host"
        : "the engine is running, but the host's address has changed; it restarts on the new address once that is stable",
      because: hasNoAddress
        ? "the host has no address to serve on"
        : "it listens on an address that the host no longer has",
    },
    movesInMs,
  );
}

/** Withdraws the endpoint and leaves the engine running. */
function withdrawn(
  frame: EvidenceInput,
  { reason, message, because }: Because & { readonly reason: ReplicaReason; readonly message: string },
  changesInMs = Number.POSITIVE_INFINITY,
): Plan {
  const probe = probeStep(frame);
  return {
    phase: "Waiting",
    reason,
    message,
    steps: [...(mayBeAnnounced(frame) ? [{ do: "withdraw", because } as const] : []), ...probe.steps],
    recheckAfterMs: Math.min(probe.dueInMs, changesInMs),
  };
}

function mayBeAnnounced({ observed: { slice } }: EvidenceInput): boolean {
  return slice.state === "ready" || slice.state === "stale" || slice.state === "unknown";
}

function probeStep({ observed, desired, now, timings }: EvidenceInput): DueProbe {
  // A failing route is checked as often as a failing engine.
  const health =
    observed.route?.failingSince === undefined
      ? observed.health
      : { ...observed.health, failuresInARow: Math.max(1, observed.health.failuresInARow) };
  return withTickSteps(livenessProbe(health, desired.probes, now, timings), observed, now, timings);
}

function unrecorded(timings: Timings): Plan {
  return {
    phase: "Waiting",
    reason: "RunDirectoryUnreadable",
    message:
      "the record of a running engine is unreadable; the engine is left alone, and no second one starts",
    steps: [],
    recheckAfterMs: timings.correctionMs,
  };
}
