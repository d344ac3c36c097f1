/** The runner's state for people and for the rest of the agent. */
import type { Observed } from "../../src/replica/observed.ts";
import type { ReplicaPlan } from "../../src/replica/step.ts";
import type { ReplicaSnapshot } from "./ports.ts";
import { type ReplicaState, refOf } from "./state.ts";

/** One replica, for metrics and health checks. */
export function snapshotOf(state: ReplicaState): ReplicaSnapshot {
  const ref = refOf(state);
  const run = state.process?.state();
  const { file, history, counts } = state;
  const template = state.desired?.spec.template;
  return {
    uid: state.uid,
    namespace: ref?.namespace ?? "",
    name: ref?.name ?? "",
    service: template?.serviceName ?? file?.service ?? "",
    phase: state.plan?.phase ?? "Pending",
    reason: state.plan?.reason ?? "AwaitingFirstList",
    claimBytes: file?.claimBytes ?? 0,
    restarts: history.restarts,
    exits: history.exits,
    counts,
    runtime: template?.runtime ?? file?.runtime ?? "",
    revision: file?.revision ?? template?.revision ?? "",
    ...(file === undefined ? {} : { port: file.port, startedAtMs: file.startedAtMs }),
    ...(file?.readyAtMs === undefined ? {} : { readyAtMs: file.readyAtMs }),
    ...(state.run.footprint?.bytes === undefined ? {} : { footprintBytes: state.run.footprint.bytes }),
    ...(run?.at === "running" ? { pid: run.pid } : {}),
  };
}

/** A plan as `--dry-run` prints it. */
export function describePlan(state: ReplicaState, observed: Observed, plan: ReplicaPlan): string {
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
