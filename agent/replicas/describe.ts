/** Descriptions of the runner's state, for metrics, health checks and `--dry-run`. */

import type { Performance } from "../../src/api/fields/performance.ts";
import type { ReplicaSnapshot } from "./context/ports.ts";
import type { ObservedReplica } from "./evidence/observed.ts";
import { footprintOf, runOf } from "./state/run.ts";
import { type ReplicaState, refOf, replicaOf } from "./state/state.ts";
import type { ReplicaPlan } from "./state/step.ts";

export function snapshotOf(state: ReplicaState, performance?: Performance): ReplicaSnapshot {
  const ref = refOf(state);
  const run = runOf(state);
  const file = run?.file;
  const engine = run?.instance.state();
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
    model: template?.model.source ?? "",
    revision: file?.revision ?? template?.revision ?? "",
    port: file?.port,
    startedAtMs: file?.startedAtMs,
    readyAtMs: file?.readyAtMs,
    performance,
    footprintBytes: footprintOf(run)?.bytes,
    pid: engine?.at === "running" ? engine.pid : undefined,
    download: state.weights.at === "fetching" ? state.weights : undefined,
  };
}

/** A plan as `--dry-run` prints it. */
export function describePlan(state: ReplicaState, observed: ObservedReplica, plan: ReplicaPlan): string {
  const ref = refOf(state);
  const name = ref === undefined ? state.uid : `${ref.namespace}/${ref.name}`;
  const head = `${name}: ${plan.phase} (${plan.reason}), engine ${observed.run.at}: ${plan.message}`;
  const steps = plan.steps.map((step) => {
    const { do: verb, because, ...parameters } = step;
    const details = Object.entries(parameters).map(([key, value]) =>
      value === undefined ? "" : ` ${key}=${String(value)}`,
    );
    return `  ${verb}${details.join("")}: ${because}`;
  });
  return [head, ...(steps.length === 0 ? ["  nothing to do"] : steps)].join("\n");
}
