/** `metalbridge drain`: moves what runs on a host elsewhere, and follows it until nothing is left there. */

import type { Command } from "commander";
import { MetalbridgeError } from "../src/api/errors.ts";
import type { Host } from "../src/api/host.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import { findHost } from "./cluster/find.ts";
import {
  addClusterFlags,
  booleanOption,
  type ClusterFlags,
  parseDuration,
  parseHostName,
} from "./cluster/flags.ts";
import { follow } from "./cluster/follow.ts";
import { writeHostChange } from "./drain/patch.ts";
import { type DrainView, drainChanges, viewDrain } from "./drain/progress.ts";
import { formatSpan } from "./program/age.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { writeErr, writeOut } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface DrainFlags extends ClusterFlags {
  readonly timeout: number;
  readonly wait: boolean;
}

const TIMEOUT_MS = 600_000;

/** Options and action of the verb. */
export function configureDrain(command: Command): void {
  addClusterFlags(command)
    .argument("<host>", "name of the Host", parseHostName)
    .option(
      "--timeout <time>",
      "stop following after this time, such as 90s or 10m (default: 10m); 0: never. The drain continues",
      parseDuration,
    )
    .addOption(booleanOption("--wait", "follow until nothing is left on the host"))
    .action((name: string, flags: Partial<DrainFlags>) =>
      drain(name, { ...flags, timeout: flags.timeout ?? TIMEOUT_MS, wait: flags.wait ?? true }),
    );
}

async function drain(name: string, flags: DrainFlags): Promise<void> {
  await withCluster("drain", flags, async (cluster) => {
    const { host, isChanged } = await writeHostChange(cluster, await findHost(cluster, name), {
      drain: true,
    });
    say(
      isChanged
        ? `host ${name} is being drained: its replicas move elsewhere, nothing new is placed there`
        : `host ${name} was being drained already`,
    );
    if (flags.wait && (await followDrain(cluster, host, flags.timeout)))
      say(`host ${name} is drained; it takes nothing new until: metalbridge uncordon ${name}`);
    if (!flags.wait) say(takeBack(name));
  });
}

/** True once nothing is left there; false after Ctrl-C. Throws DrainNotFinished, DrainTakenBack. */
export async function followDrain(cluster: Cluster, host: Host, timeoutMs: number): Promise<boolean> {
  const { signal } = listenForStop();
  if (await untilDrained(cluster, host, { timeoutMs, signal, say })) return true;
  say(`not followed any longer; ${takeBack(host.metadata.name)}`);
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

function takeBack(name: string): string {
  return `the drain continues; to cancel it: metalbridge uncordon ${name}`;
}

function say(line: string): void {
  writeOut(`${line}\n`);
}
