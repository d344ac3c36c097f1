/** `metalbridge top`: shows hosts, memory, services and the queue live. */

import type { Command } from "commander";
import { createLogUpdate } from "log-update";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { terminalText } from "../src/util/terminal-text.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import { addClusterFlags, type ClusterFlags, parseName } from "./cluster/flags.ts";
import { type Follower, follow } from "./cluster/follow.ts";
import { printLine, printNote } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";
import { topLines } from "./top/view.ts";

/** Minimum time between two redraws. */
const REDRAW_MS = 200;
/** q, Ctrl-C and Ctrl-D. In raw mode the terminal sends no signals. */
const QUIT_KEYS = ["q", "\u0003", "\u0004"];
const ALTERNATE_SCREEN = { enter: "\u001b[?1049h", leave: "\u001b[?1049l" };
/** Clears the screen and moves the cursor to its start: the cursor keeps its position on the alternate screen. */
const EMPTY = "\u001b[2J\u001b[H";

/** Options and action of the verb. */
export function configureTop(command: Command): void {
  addClusterFlags(command)
    .option("-n, --namespace <name>", "show services and replicas of one namespace only", parseName)
    .action(top);
}

/** Without a terminal it prints one screen and exits. */
async function top(flags: ClusterFlags): Promise<void> {
  await withCluster("top", flags, async (cluster) => {
    const stop = listenForStop();
    const scope = { namespace: flags.namespace };
    const screen = process.stdout.isTTY === true ? openScreen(stop.stop) : undefined;
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
      const show = (): void => {
        timer = undefined;
        const title = titleOf(cluster, { isLive: screen !== undefined });
        const input = isSynced
          ? { hosts: hosts.list(), services: services.list(), replicas: replicas.list() }
          : undefined;
        const lines = topLines(input, { title, problem }, screen?.size() ?? UNLIMITED);
        if (screen !== undefined) screen.draw(lines);
        else if (input !== undefined) {
          printLine(lines.join("\n"));
          finish();
        }
      };
      redraw = () => {
        timer ??= setTimeout(show, screen === undefined ? 0 : REDRAW_MS);
      };
      const changed = (): void => {
        isSynced = true;
        problem = "";
        redraw();
      };
      const hosts = watch(HOSTS, {}, changed);
      const services = watch(INFERENCE_SERVICES, scope, changed);
      const replicas = watch(INFERENCE_REPLICAS, scope, changed);
      screen?.onResize(redraw);
      stop.signal.addEventListener("abort", () => clearTimeout(timer));
    };
    try {
      await follow<void>(cluster, { signal: stop.signal, onProblem }, begin);
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
