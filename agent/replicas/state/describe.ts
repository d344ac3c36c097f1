/** The runner's state for people and for the rest of the agent. */

import type { ObservedReplica } from "../observed.ts";
import type { ReplicaSnapshot } from "../ports.ts";
import type { ReplicaPlan } from "../step.ts";
import { type EngineRun, footprintOf, runOf } from "./run.ts";
import { type ReplicaState, refOf, replicaOf } from "./state.ts";

/** One replica, for metrics and health checks. */
export function snapshotOf(state: ReplicaState): ReplicaSnapshot {
  const ref = refOf(state);
  const run = runOf(state);
  const file = run?.file;
  const pid = pidOf(run);
  const footprintBytes = footprintOf(run)?.bytes;
  const { counts, published } = state;
  const { history } = state.past;
  const template = replicaOf(state)?.spec.template;
  return {
    uid: state.uid,
    namespace: ref?.namespace ?? "",
    name: ref?.name ?? "",
    service: template?.serviceName ?? file?.service ?? "",
    phase: published.plan?.phase ?? "Pending",
    reason: published.plan?.reason ?? "AwaitingFirstList",
    claimBytes: file?.claimBytes ?? 0,
    restarts: history.restarts,
    exits: history.exits,
    counts,
    runtime: template?.runtime ?? file?.runtime ?? "",
    revision: file?.revision ?? template?.revision ?? "",
    ...(file === undefined ? {} : { port: file.port, startedAtMs: file.startedAtMs }),
    ...(file?.readyAtMs === undefined ? {} : { readyAtMs: file.readyAtMs }),
    ...(footprintBytes === undefined ? {} : { footprintBytes }),
    ...(pid === undefined ? {} : { pid }),
    ...(state.weights.at === "fetching" ? { download: state.weights } : {}),
  };
}

function pidOf(run: EngineRun | undefined): number | undefined {
  const state = run?.instance.state();
  return state?.at === "running" ? state.pid : undefined;
}

/** A plan as `--dry-run` prints it. */
export function describePlan(state: ReplicaState, observed: ObservedReplica, plan: ReplicaPlan): string {
  const ref = refOf(state);
  const name = ref === undefined ? state.uid : `${ref.namespace}/${ref.name}`;
  const head = `${name}: ${plan.phase} (${plan.reason}), engine ${observed.run.at}: ${plan.message}`;
  const steps = plan.steps.map((step) => {
    const { do: verb, because, ...rest } = step;
    const details = Object.entries(rest).map(([key, value]) => ` ${key}=${String(value)}`);
    return `  ${verb}${details.join("")}: ${because}`;
  });
  return [head, ...(steps.length === 0 ? ["  nothing to do"] : steps)].join("\n");
}
