/** Follows the drain of a host until nothing is left there. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { follow } from "../cluster/follow.ts";
import { formatSpan } from "../program/age.ts";
import { exitCodes } from "../program/exit-codes.ts";
import { writeErr, writeOut } from "../program/output.ts";
import { listenForStop } from "../program/stop-signals.ts";
import { type DrainView, drainChanges, viewDrain } from "./progress.ts";

/** True once nothing is left there; false after Ctrl-C. Throws DrainNotFinished, DrainTakenBack. */
export async function followDrain(cluster: Cluster, host: Host, timeoutMs: number): Promise<boolean> {
  const { signal } = listenForStop();
  if (await untilDrained(cluster, host, { timeoutMs, signal, say: announceDrain })) return true;
  announceDrain(`not followed any longer; ${describeCancel(host.metadata.name)}`);
  process.exitCode = exitCodes.interrupted;
  return false;
}

export interface DrainFollowing {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly say: (line: string) => void;
}

/** True once nothing is left there; false when the signal ended it. Throws DrainNotFinished, DrainTakenBack. */
export async function untilDrained(
  cluster: Cluster,
  host: Host,
  { timeoutMs, signal, say }: DrainFollowing,
): Promise<boolean> {
  const { name, uid, generation = 0 } = host.metadata;
  let view: DrainView | undefined;
  const options = { signal, timeoutMs, tellTrouble: (line: string) => writeErr(`${line}\n`) };
  const end = await follow<DrainView>(cluster, options, ({ watch, finish, fail }) => {
    const look = () => {
      if (!hosts.isSynced() || !replicas.isSynced()) return;
      const now = hosts.get(name);
      if (now === undefined || now.metadata.uid !== uid)
        return fail(new MetalbridgeError("HostNotFound", `Host ${name} was deleted meanwhile`));
      const next = viewDrain(now, replicas.list(), generation);
      for (const line of drainChanges(view, next)) say(line);
      view = next;
      if (next.at !== "moving") finish(next);
    };
    const hosts = watch(HOSTS, { fieldSelector: `metadata.name=${name}` }, () => look());
    const replicas = watch(INFERENCE_REPLICAS, { fieldSelector: `spec.template.hostName=${name}` }, () =>
      look(),
    );
  });
  switch (end.how) {
    case "finished":
      if (end.value.at === "takenBack")
        throw new MetalbridgeError("DrainTakenBack", `host ${name} is not being drained any more`);
      return true;
    case "late":
      throw late(name, timeoutMs, view);
    case "stopped":
      return false;
    default:
      return end satisfies never;
  }
}

function late(name: string, timeoutMs: number, view: DrainView | undefined): MetalbridgeError {
  const left = [...(view?.left.keys() ?? [])];
  const what =
    left.length === 0 ? "the controller has not said that it is done" : `still there: ${left.join(", ")}`;
  const why = view === undefined || view.message === "" ? "" : ` (${view.message})`;
  const message = `host ${name} is not drained after ${formatSpan(timeoutMs)}; ${what}${why}`;
  return new MetalbridgeError("DrainNotFinished", message, {
    summary: "the drain continues on the host: make room on another host, or cancel it",
    command: `metalbridge uncordon ${name}`,
  });
}

export function describeCancel(name: string): string {
  return `the drain continues; to cancel it: metalbridge uncordon ${name}`;
}

export function announceDrain(line: string): void {
  writeOut(`${line}\n`);
}
