/** `metalbridge top`: shows hosts, memory, services and queues live. */

import { type Command, InvalidArgumentError } from "commander";
import { createLogUpdate } from "log-update";
import { silentLog } from "../local/terminal-log.ts";
import { type ReadQueues, readRequestQueues } from "../server/gateway-queues.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { NAMESPACE_SYSTEM } from "../src/api/group.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import { repeat } from "../src/util/repeat.ts";
import { terminalText } from "../src/util/terminal-text.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import {
  addClusterFlags,
  type ClusterFlags,
  type OutputFormat,
  outputFlag,
  parseName,
} from "./cluster/flags.ts";
import { type Follower, follow } from "./cluster/follow.ts";
import { listVisible, missingOf } from "./cluster/visible.ts";
import { printNote, printResult } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";
import { overviewOf } from "./status/overview.ts";
import { type TopInput, topLines } from "./top/view.ts";

interface TopFlags extends ClusterFlags {
  readonly gateway?: readonly URL[];
  readonly gatewayNamespace: string;
  readonly output: OutputFormat;
}

/** Minimum time between two redraws. */
const REDRAW_MS = 200;
/** Between two readings of the gateways, which have no watch. */
const READ_MS = 2_000;

/** Options and action of the verb. */
export function configureTop(command: Command): void {
  addClusterFlags(command)
    .option("-n, --namespace <name>", "show services and replicas of one namespace only", parseName)
    .option(
      "--gateway <url...>",
      "health ports of gateways outside the cluster, such as http://127.0.0.1:9468 (default: the pods of the chart)",
      (text: string, before: readonly URL[] = []) => [...before, parseGateway(text)],
    )
    .option(
      "--gateway-namespace <name>",
      "namespace with the pods of the gateway",
      parseName,
      NAMESPACE_SYSTEM,
    )
    .addOption(outputFlag())
    .action(top);
}

function parseGateway(text: string): URL {
  const url = URL.parse(text);
  if (url?.protocol === "http:") return url;
  throw new InvalidArgumentError("It must be a URL such as http://127.0.0.1:9468.");
}

/** Without a terminal it prints one screen and exits. */
async function top(flags: TopFlags): Promise<void> {
  const { output } = flags;
  await withCluster("top", flags, async (cluster) => {
    const visible = await visibleTo(cluster, flags.namespace);
    const { missing, namespace } = visible;
    const stop = listenForStop();
    const isLive = output === "text" && process.stdout.isTTY === true;
    const screen = isLive ? openScreen(stop.stop) : undefined;
    let problem = "";
    let redraw = (): void => {};
    const onProblem = (message: string): void => {
      if (screen === undefined) printNote(message);
      problem = message;
      redraw();
    };
    const begin = ({ watch, finish }: Follower<void>): void => {
      let timer: NodeJS.Timeout | undefined;
      let isSynced = false;
      let requests: ReadQueues | undefined;
      const inputNow = (): TopInput | undefined =>
        isSynced && requests !== undefined
          ? { hosts: hosts?.list(), services: services.list(), replicas: replicas.list(), requests }
          : undefined;
      const show = (): void => {
        timer = undefined;
        const input = inputNow();
        const head = { title: titleOf(cluster, { isLive }), problem, missing };
        if (screen !== undefined) screen.draw(topLines(input, head, screen.size()));
        else if (input !== undefined) {
          printResult(output, { missing, ...jsonOf(input) }, () =>
            topLines(input, head, UNLIMITED).join("\n"),
          );
          finish();
        }
      };
      redraw = () => {
        timer ??= setTimeout(show, isLive ? REDRAW_MS : 0);
      };
      const changed = (): void => {
        isSynced = true;
        problem = "";
        redraw();
      };
      const hosts = visible.hasHosts ? watch(HOSTS, {}, changed) : undefined;
      const services = watch(INFERENCE_SERVICES, { namespace }, changed);
      const replicas = watch(INFERENCE_REPLICAS, { namespace }, changed);
      followQueues(cluster, { ...flags, namespace }, stop.signal, (read) => {
        requests = read;
        redraw();
      });
      screen?.onResize(redraw);
      stop.signal.addEventListener("abort", () => clearTimeout(timer));
    };
    try {
      await follow<void>(cluster, { signal: stop.signal, onProblem }, begin);
    } finally {
      stop.stop();
      screen?.close();
    }
    process.exitCode = stop.exitCode();
  });
}

/** What the watches may follow, as this user's rights are at the start. */
async function visibleTo(cluster: Cluster, namespace: string | undefined) {
  const whole = { hasHosts: true, namespace, missing: [] };
  try {
    const [hosts, services, replicas] = await Promise.all([
      listVisible(cluster, HOSTS),
      listVisible(cluster, INFERENCE_SERVICES, namespace),
      listVisible(cluster, INFERENCE_REPLICAS, namespace),
    ]);
    return {
      hasHosts: hosts.items !== undefined,
      namespace: services.selection.namespace ?? replicas.selection.namespace,
      missing: missingOf(hosts, services, replicas),
    };
  } catch (error) {
    // An API server that does not answer is waited for by the watches.
    if (error instanceof MetalbridgeError && error.code !== "ApiForbidden") return whole;
    throw error;
  }
}

/** Reads the queues of one namespace, or of all, from time to time. */
function followQueues(
  cluster: Cluster,
  { gateway: urls = [], gatewayNamespace, namespace: only }: TopFlags,
  signal: AbortSignal,
  onRead: (read: ReadQueues) => void,
): void {
  const read = async (): Promise<void> => {
    const found = await readRequestQueues(cluster.connection, { urls, namespace: gatewayNamespace }, signal);
    const queues = found.queues.filter(({ service }) => only === undefined || service.startsWith(`${only}/`));
    if (!signal.aborted) onRead({ ...found, queues });
  };
  void read();
  repeat({ clock: systemClock, log: silentLog, signal }, READ_MS, read);
}

function jsonOf({ hosts, services, replicas, requests }: TopInput): object {
  const overview = overviewOf(hosts ?? [], services, replicas);
  return { ...overview, hosts: hosts && overview.hosts, requests };
}

function titleOf({ connection }: Cluster, { isLive }: { readonly isLive: boolean }): string {
  const time = `${new Date().toISOString().slice(0, 19)}Z`;
  return [connection.server, time, ...(isLive ? ["q quits"] : [])].join("  ");
}

const UNLIMITED = { columns: Number.POSITIVE_INFINITY, rows: Number.POSITIVE_INFINITY };

/** q, Ctrl-C and Ctrl-D. In raw mode the terminal sends no signals. */
const QUIT_KEYS = ["q", "\u0003", "\u0004"];
const ALTERNATE_SCREEN = { enter: "\u001b[?1049h", leave: "\u001b[?1049l" };
/** Clears the screen and moves the cursor to its start: the cursor keeps its position on the alternate screen. */
const EMPTY = "\u001b[2J\u001b[H";

/** Uses the alternate screen, so that the terminal is restored afterwards. */
function openScreen(quit: () => void) {
  const { stdin, stdout } = process;
  const update = createLogUpdate(stdout);
  const resizes = new AbortController();
  stdout.write(ALTERNATE_SCREEN.enter + EMPTY);
  if (stdin.isTTY) stdin.setRawMode(true);
  stdin.on("data", (keys: Buffer) => {
    if (QUIT_KEYS.some((key) => keys.includes(key))) quit();
  });
  return {
    draw: (lines: readonly string[]): void => update(terminalText(lines.join("\n"))),
    size: () => ({ columns: stdout.columns, rows: stdout.rows - 1 }),
    onResize: (changed: () => void): void => {
      const listener = () => {
        update.clear();
        stdout.write(EMPTY);
        changed();
      };
      stdout.on("resize", listener);
      resizes.signal.addEventListener("abort", () => stdout.off("resize", listener));
    },
    close: (): void => {
      resizes.abort();
      update.clear();
      update.done();
      if (stdin.isTTY) stdin.setRawMode(false);
      stdin.pause();
      stdout.write(ALTERNATE_SCREEN.leave);
    },
  };
}
