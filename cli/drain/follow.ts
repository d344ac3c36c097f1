/** Follows the drain of a host until the host is empty. */

import { getCondition } from "../../src/api/conditions.ts";
import { MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import type { Host } from "../../src/api/host.ts";
import { leavingState } from "../../src/api/host-change.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { keyOf } from "../../src/api/names.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { follow } from "../cluster/follow.ts";
import { formatSpan } from "../program/age.ts";
import { exitCodes } from "../program/exit-codes.ts";
import { printLine } from "../program/output.ts";
import { listenForStop } from "../program/stop-signals.ts";
import { printable } from "../program/table.ts";

/** True once the host is empty; false after Ctrl-C. Throws DrainNotFinished or DrainTakenBack. */
export async function followDrain(cluster: Cluster, host: Host, timeoutMs: number): Promise<boolean> {
  const { signal } = listenForStop();
  if (await untilDrained(cluster, host, { timeoutMs, signal, print: printLine })) return true;
  printLine(describeCancel(host.metadata.name));
  process.exitCode = exitCodes.interrupted;
  return false;
}

export interface DrainFollowing {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly print: (line: string) => void;
}

/** True once the host is empty; false after the signal. Throws DrainNotFinished or DrainTakenBack. */
export async function untilDrained(
  cluster: Cluster,
  host: Host,
  { timeoutMs, signal, print }: DrainFollowing,
): Promise<boolean> {
  const { name, uid, generation = 0 } = host.metadata;
  let view: DrainView | undefined;
  const end = await follow<DrainView>(cluster, { signal, timeoutMs }, ({ watch, finish, fail }) => {
    const inspect = () => {
      const now = hosts.get(name);
      if (now === undefined || now.metadata.uid !== uid)
        return fail(new MetalbridgeError("HostNotFound", `Host ${name} was deleted in the meantime`));
      const next = viewDrain(now, replicas.list(), generation);
      for (const line of drainChanges(view, next)) print(line);
      view = next;
      if (next.at !== "moving") finish(next);
    };
    const hosts = watch(HOSTS, { fieldSelector: `metadata.name=${name}` }, inspect);
    const onHost = { fieldSelector: `spec.template.hostName=${name}` };
    const replicas = watch(INFERENCE_REPLICAS, onHost, inspect);
  });
  if (end.at === "timedOut") throw notFinished(name, timeoutMs, view);
  if (end.at === "stopped") return false;
  if (end.value.at === "takenBack")
    throw new MetalbridgeError(
      "DrainTakenBack",
      `the drain of host ${name} was canceled`,
      remedyOf("DrainTakenBack", { host: name }),
    );
  return true;
}

function notFinished(name: string, timeoutMs: number, view: DrainView | undefined): MetalbridgeError {
  const remaining = [...(view?.left.keys() ?? [])];
  const what =
    remaining.length === 0
      ? "the controller has not reported that it is done"
      : `still on the host: ${remaining.join(", ")}`;
  const why = view === undefined || view.message === "" ? "" : ` (${view.message})`;
  const message = `host ${name} is not drained after ${formatSpan(timeoutMs)}; ${what}${why}`;
  return new MetalbridgeError("DrainNotFinished", message, {
    summary: "the drain continues on the host: make room on another host, or cancel the drain",
    command: `metalbridge uncordon ${name}`,
  });
}

export function describeCancel(name: string): string {
  return `the drain continues; to cancel it: metalbridge uncordon ${name}`;
}

/** The progress of a drain: the replicas that are still on the host, and the message of the controller. Pure. */
interface DrainView {
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
