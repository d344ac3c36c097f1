/** How far a drain is: what is still on the host, and what the controller says. Pure. */
import { getCondition } from "../../src/api/conditions.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { keyOf } from "../../src/api/names.ts";
import { printable } from "../program/table.ts";

export interface DrainView {
  /** `takenBack`: the drain was canceled (uncordon). */
  readonly at: "drained" | "moving" | "takenBack";
  /** The controller's sentence; empty while it has said nothing about this drain. */
  readonly message: string;
  /** By `namespace/name`: what each replica that is still there does. */
  readonly left: ReadonlyMap<string, string>;
}

const DRAINED = "Drained";

/** `generation`: of the Host when the drain was asked for; an older word of the controller is about another drain. */
export function viewDrain(host: Host, replicas: readonly InferenceReplica[], generation: number): DrainView {
  const here = replicas.filter(({ spec }) => spec.template.hostName === host.metadata.name);
  const left = new Map(here.map((replica) => [keyOf(replica.metadata), storyOf(replica)]));
  if (host.spec.drain !== true) return { at: "takenBack", message: "", left };
  const condition = getCondition(host.status?.conditions, DRAINED);
  const isCurrent = (condition?.observedGeneration ?? generation) >= generation;
  if (condition === undefined || !isCurrent) return { at: "moving", message: "", left };
  // A True beside replicas is older than they are.
  const isDrained = condition.status === "True" && left.size === 0;
  return { at: isDrained ? "drained" : "moving", message: condition.message, left };
}

/** The lines that say what changed from one view to the next. */
export function drainChanges(before: DrainView | undefined, now: DrainView): readonly string[] {
  const gone = [...(before?.left.keys() ?? [])].filter((key) => !now.left.has(key));
  const changed = [...now.left].filter(([key, story]) => before?.left.get(key) !== story);
  const width = Math.max(0, ...gone.map((key) => key.length), ...changed.map(([key]) => key.length));
  const said = now.message !== "" && now.message !== before?.message ? [now.message] : [];
  return [
    ...changed.map(([key, story]) => `  ${key.padEnd(width)}  ${story}`),
    ...gone.map((key) => `  ${key.padEnd(width)}  has left`),
    ...said,
  ];
}

function storyOf({ metadata, spec, status }: InferenceReplica): string {
  const phase = status?.phase ?? "Pending";
  const message =
    status?.message === undefined || status.message === "" ? "" : `: ${printable(status.message)}`;
  const isLeaving = metadata.deletionTimestamp !== undefined || spec.drain !== undefined;
  if (phase === "Ready" && !isLeaving) return "Ready; stays until another is Ready elsewhere";
  return phase === "Ready" ? "Ready; is to leave" : `${phase}${message}`;
}
