/** From a replica's state and the host to the one value that the planner reads. */
import { desiredOf } from "../../src/replica/desired.ts";
import { seeSlice } from "../../src/replica/evidence/exposure.ts";
import type { Crashes, Desired, Observed, Run, Slice, Wanted } from "../../src/replica/observed.ts";
import { adoptAgain } from "./adopt.ts";
import type { RunnerContext } from "./context.ts";
import { watchWeights } from "./files/weights.ts";
import { availableFor, pressureOn } from "./pressure.ts";
import { type ReplicaState, refOf } from "./state.ts";
import { resolveModel } from "./work/fetch.ts";

/** What the API server wants of it, as far as this process can know. */
export function wantedOf(state: ReplicaState, context: RunnerContext): Wanted {
  if (state.isGone) return "absent";
  if (state.desired !== undefined) return keepDeadline(state, desiredOf(state.desired, context.moment()));
  return context.wasListed() ? "absent" : "unknown";
}

/** A wall clock that is set later moves no deadline: each has its place on the monotonic clock from the first look on. */
function keepDeadline(state: ReplicaState, desired: Desired): Desired {
  const text = state.desired?.spec.drain?.deadline;
  const at = desired.drain?.deadlineAt;
  if (text === undefined || at === undefined || desired.drain === undefined) return desired;
  if (state.deadline?.text !== text) state.deadline = { text, at };
  return { ...desired, drain: { ...desired.drain, deadlineAt: state.deadline.at } };
}

/** Looks once. Only where nothing runs does it touch the disk; a running engine's facts come from its jobs. */
export async function observe(state: ReplicaState, context: RunnerContext): Promise<Observed> {
  if (state.adoptionError !== undefined) await adoptAgain(state, context);
  const runtime = state.desired?.spec.template.runtime ?? state.file?.runtime ?? "";
  if (runOf(state).at === "none" && state.desired !== undefined && !state.isGone) {
    const isUnknown = context.runtimes.state(runtime).at === "unknown";
    await Promise.all([
      resolveModel(state, context),
      isUnknown ? context.runtimes.detect(runtime) : undefined,
    ]);
  }
  const moment = context.moment();
  const budget = context.ports.memoryBudget();
  const available = availableFor(state.uid, context);
  const address = context.ports.address();
  const agentEnds = context.agentEnds();
  return {
    run: runOf(state),
    ...(state.record === undefined ? {} : { record: state.record }),
    model: state.model,
    memory: {
      budgetBytes: budget ?? "unknown",
      othersBytes: context.admission.othersBytes(state.uid),
      ...(available === undefined ? {} : { availableBytes: available }),
    },
    pressure: pressureOn(state, context),
    launch: state.launch,
    runtime: context.runtimes.state(runtime),
    ...observeAddress(state, address, context, moment.monotonicMs),
    slice: observeSlice(state, context, moment.monotonicMs),
    health: state.run.health,
    request: state.run.request,
    work: state.run.work,
    suspicion: state.run.suspicion,
    quiet: state.run.quiet,
    signals: state.run.signals,
    ...(state.run.footprint === undefined ? {} : { footprint: state.run.footprint }),
    crashes: crashesOf(state),
    wasListed: context.wasListed(),
    ...(agentEnds === undefined ? {} : { agentEnds }),
  };
}

function runOf(state: ReplicaState): Run {
  if (state.adoptionError !== undefined) return { at: "unreadable", why: state.adoptionError };
  const seen = state.process?.state();
  if (seen === undefined) return { at: "none" };
  return seen.at === "running" ? { at: "running", pid: seen.pid } : seen;
}

/** An address that flickers, or that a fresh agent has not learnt yet, moves no engine; one that is not there is no endpoint. */
function observeAddress(
  state: ReplicaState,
  address: string | undefined,
  context: RunnerContext,
  now: number,
): Pick<Observed, "hasAddress" | "isBoundElsewhere" | "isCutOff" | "movesInMs"> {
  const bound = runOf(state).at === "running" ? state.file?.address : undefined;
  const { elsewhereSince: before, ...run } = state.run;
  const differs = address !== undefined && bound !== undefined && bound !== address && context.wasListed();
  state.run = differs ? { ...run, elsewhereSince: before ?? now } : run;
  if (!differs) return { hasAddress: address !== undefined, isBoundElsewhere: false, isCutOff: false };
  const isCutOff = context.ports.isAddressUp?.(bound) === false;
  const { movedMs, cutOffMs } = context.timings;
  const movesInMs = (before ?? now) + (isCutOff ? cutOffMs : movedMs) - now;
  return { hasAddress: false, isBoundElsewhere: movesInMs <= 0, isCutOff, movesInMs: Math.max(1, movesInMs) };
}

function observeSlice(state: ReplicaState, context: RunnerContext, now: number): Slice {
  const ref = refOf(state);
  const wanted =
    state.file === undefined ? undefined : { address: state.file.address, port: state.file.port };
  const current =
    ref === undefined || isSuperseded(state, context)
      ? "missing"
      : context.ports.endpoints.state(ref, wanted);
  const { state: _, ...slice } = seeSlice(state.run.slice, current, state.file?.readyAtMs !== undefined, now);
  state.run.slice = slice;
  return { ...slice, state: current };
}

/** A new replica of the same name owns the slice now; the old one has no business with it any more. */
function isSuperseded(state: ReplicaState, context: RunnerContext): boolean {
  if (!state.isGone) return false;
  const ref = refOf(state);
  for (const other of context.states.values()) {
    if (other === state || other.isGone) continue;
    const { metadata } = other.desired ?? {};
    if (metadata?.name === ref?.name && metadata?.namespace === ref?.namespace) return true;
  }
  return false;
}

function crashesOf(state: ReplicaState): Crashes {
  // An engine that serves is proof against the verdict on an earlier one.
  if (state.history.hopelessWith !== undefined && state.file?.readyAtMs !== undefined) {
    const { hopelessWith: _, hopelessWeights: __, ...kept } = state.history;
    state.history = kept;
  }
  watchWeights(state);
  const { history, backoffUntil } = state;
  const { recordedRunId, lastExit } = history;
  const hopeless = hopelessOf(state);
  return {
    restarts: history.restarts,
    inARow: history.crashesInARow,
    ...(recordedRunId === undefined ? {} : { recordedRunId }),
    ...(backoffUntil === undefined ? {} : { backoffUntil }),
    ...(lastExit === undefined ? {} : { lastExit: exitOf(lastExit) }),
    ...(hopeless === undefined ? {} : { hopeless }),
  };
}

function hopelessOf({ history, desired, lookedAt }: ReplicaState): Crashes["hopeless"] {
  const { hopelessWith: runtimeVersion, hopelessWeights: weights } = history;
  if (runtimeVersion === undefined) return undefined;
  const mayChange = desired?.spec.template.model.refreshPolicy === "OnChange";
  return {
    runtimeVersion,
    ...(weights === undefined ? {} : { weights }),
    ...(mayChange && lookedAt !== undefined ? { askedAt: lookedAt } : {}),
  };
}

function exitOf(exit: NonNullable<ReplicaState["history"]["lastExit"]>): NonNullable<Crashes["lastExit"]> {
  const { code, signal, ...rest } = exit;
  return { ...rest, ...(code === undefined ? {} : { code }), ...(signal === undefined ? {} : { signal }) };
}
