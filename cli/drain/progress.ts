/** The progress of a drain: the replicas that are still on the host, and the message of the controller. Pure. */
import { getCondition } from "../../src/api/conditions.ts";
import type { Host } from "../../src/api/host.ts";
import { leavingState } from "../../src/api/host-change.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { keyOf } from "../../src/api/names.ts";
import { printable } from "../program/table.ts";

export interface DrainView {
  /** `takenBack`: the drain was canceled (uncordon). */
  readonly at: "drained" | "moving" | "takenBack";
  /** The controller's message about this drain; empty before there is one. */
  readonly message: string;
  /** The state of each replica that is still on the host, by `namespace/name`. */
  readonly left: ReadonlyMap<string, string>;
}

const DRAINED = "Drained";

/** `generation` is the generation of the Host when the drain was requested. An older condition is about another drain. */
export function viewDrain(host: Host, replicas: readonly InferenceReplica[], generation: number): DrainView {
  const own = replicas.filter(({ spec }) => spec.template.hostName === host.metadata.name);
  const left = new Map(own.map((replica) => [keyOf(replica.metadata), printable(leavingState(replica))]));
  if (host.spec.drain !== true) return { at: "takenBack", message: "", left };
  const condition = getCondition(host.status?.conditions, DRAINED);
  const isCurrent = (condition?.observedGeneration ?? generation) >= generation;
  if (condition === undefined || !isCurrent) return { at: "moving", message: "", left };
  // A True condition while there are replicas is older than the replicas.
  const isDrained = condition.status === "True" && left.size === 0;
  return { at: isDrained ? "drained" : "moving", message: condition.message, left };
}

/** One line for each change from one view to the next. */
export function drainChanges(before: DrainView | undefined, now: DrainView): readonly string[] {
  const departed = [...(before?.left.keys() ?? [])].filter((key) => !now.left.has(key));
  const changed = [...now.left].filter(([key, state]) => before?.left.get(key) !== state);
  const width = Math.max(0, ...departed.map((key) => key.length), ...changed.map(([key]) => key.length));
  const news = now.message !== "" && now.message !== before?.message ? [now.message] : [];
  return [
    ...changed.map(([key, state]) => `  ${key.padEnd(width)}  ${state}`),
    ...departed.map((key) => `  ${key.padEnd(width)}  has left`),
    ...news,
  ];
}
