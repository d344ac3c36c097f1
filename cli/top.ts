/** `metalbridge top`: hosts, memory, services and the queue, live. */

import type { Command } from "commander";
import { createLogUpdate } from "log-update";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { terminalText } from "../src/util/terminal-text.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import { addClusterFlags, type ClusterFlags, parseName } from "./cluster/flags.ts";
import { type Follower, follow } from "./cluster/follow.ts";
import { writeErr, writeOut } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";
import { topLines } from "./top/view.ts";

/** Redrawn at most this often, however much changes. */
const REDRAW_MS = 200;
/** q, Ctrl-C, Ctrl-D: in raw mode the terminal sends no signals. */
const QUIT_KEYS = ["q", "\u0003", "\u0004"];
const ALTERNATE_SCREEN = { enter: "\u001b[?1049h", leave: "\u001b[?1049l" };
/** The cursor enters the alternate screen where it was, and a resize may move it. */
const EMPTY = "\u001b[2J\u001b[H";

/** Options and action of the verb. */
export function configureTop(command: Command): void {
  addClusterFlags(command)
    .option("-n, --namespace <name>", "services and replicas of one namespace only", parseName)
    .action(top);
}

/** Without a terminal it prints one screen, whole, and ends. */
async function top(flags: ClusterFlags): Promise<void> {
  await withCluster("top", flags, async (cluster) => {
    const stop = listenForStop();
    const scope = flags.namespace === undefined ? {} : { namespace: flags.namespace };
    const screen = process.stdout.isTTY === true ? openScreen(stop.stop) : undefined;
    let trouble = "";
    let redraw = (): void => {};
    const tellTrouble = (message: string): void => {
      if (screen === undefined) writeErr(`${message}\n`);
      trouble = message;
      redraw();
    };
    const begin = ({ watch, finish }: Follower<void>): void => {
      let timer: NodeJS.Timeout | undefined;
      const isSynced = () => [hosts, services, replicas].every((one) => one.isSynced());
      const show = (): void => {
        timer = undefined;
        const title = titleOf(cluster, { isLive: screen !== undefined });
        const input = isSynced()
          ? { hosts: hosts.list(), services: services.list(), replicas: replicas.list() }
          : undefined;
        const lines = topLines(input, { title, trouble }, screen?.size() ?? UNLIMITED);
        if (screen !== undefined) screen.draw(lines);
        else if (input !== undefined) {
          writeOut(`${lines.join("\n")}\n`);
          finish();
        }
      };
      redraw = () => {
        timer ??= setTimeout(show, screen === undefined ? 0 : REDRAW_MS);
      };
      const changed = (): void => {
        trouble = "";
        redraw();
      };
      const hosts = watch(HOSTS, {}, changed);
      const services = watch(INFERENCE_SERVICES, scope, changed);
      const replicas = watch(INFERENCE_REPLICAS, scope, changed);
      screen?.onResize(redraw);
      stop.signal.addEventListener("abort", () => clearTimeout(timer));
    };
    try {
      await follow<void>(cluster, { signal: stop.signal, timeoutMs: 0, tellTrouble }, begin);
    } finally {
      screen?.close();
    }
    process.exitCode = stop.exitCode();
  });
}

function titleOf({ connection }: Cluster, { isLive }: { readonly isLive: boolean }): string {
  const time = `${new Date().toISOString().slice(0, 19)}Z`;
  return [connection.server, time, ...(isLive ? ["q quits"] : [])].join("  ");
}

const UNLIMITED = { columns: Number.POSITIVE_INFINITY, rows: Number.POSITIVE_INFINITY };

/** The alternate screen, so that the terminal is afterwards as it was. */
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
