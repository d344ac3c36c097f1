/** `metalbridge top`: hosts, memory, services and the queue, live. */
import type { Command } from "commander";
import { createLogUpdate } from "log-update";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { withCluster } from "./cluster/cluster.ts";
import { addClusterFlags, type ClusterFlags, parseName } from "./cluster/flags.ts";
import { follow } from "./cluster/follow.ts";
import { listenForStop } from "./program/stop-signals.ts";
import { type TopInput, topLines } from "./top/view.ts";

/** Redrawn at most this often, however much changes. */
const REDRAW_MS = 200;
/** q, Ctrl-C, Ctrl-D: in raw mode the terminal sends no signals. */
const QUIT_KEYS = ["q", "\u0003", "\u0004"];
const ALTERNATE_SCREEN = { enter: "\u001b[?1049h", leave: "\u001b[?1049l" };

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
    const isLive = process.stdout.isTTY === true;
    const scope = flags.namespace === undefined ? {} : { namespace: flags.namespace };
    let trouble = "";
    const screen = isLive ? openScreen(stop.stop) : undefined;
    const draw = (input: TopInput): void => {
      const help = isLive ? "  q quits" : "";
      const title = `${cluster.connection.server}  ${new Date().toISOString().slice(0, 19)}Z${help}  ${trouble}`;
      if (screen !== undefined) screen.draw(topLines(input, title.trimEnd(), screen.size()));
      else process.stdout.write(`${topLines(input, title.trimEnd(), UNLIMITED).join("\n")}\n`);
    };
    try {
      const tellTrouble = (message: string) => {
        trouble = message;
      };
      await follow<void>(cluster, { signal: stop.signal, timeoutMs: 0, tellTrouble }, ({ watch, finish }) => {
        let timer: NodeJS.Timeout | undefined;
        const show = (): void => {
          timer = undefined;
          draw({ hosts: hosts.list(), services: services.list(), replicas: replicas.list() });
          if (!isLive) finish();
        };
        const changed = (): void => {
          if (!hosts.isSynced() || !services.isSynced() || !replicas.isSynced()) return;
          timer ??= setTimeout(show, isLive ? REDRAW_MS : 0);
        };
        const hosts = watch(HOSTS, {}, () => changed());
        const services = watch(INFERENCE_SERVICES, scope, () => changed());
        const replicas = watch(INFERENCE_REPLICAS, scope, () => changed());
        screen?.onResize(changed);
        stop.signal.addEventListener("abort", () => clearTimeout(timer));
      });
    } finally {
      screen?.close();
    }
  });
}

const UNLIMITED = { columns: Number.POSITIVE_INFINITY, rows: Number.POSITIVE_INFINITY };

/** The alternate screen, so that the terminal is afterwards as it was. */
function openScreen(quit: () => void) {
  const { stdin, stdout } = process;
  const update = createLogUpdate(stdout);
  const resizes = new AbortController();
  stdout.write(ALTERNATE_SCREEN.enter);
  if (stdin.isTTY) stdin.setRawMode(true);
  stdin.on("data", (keys: Buffer) => {
    if (QUIT_KEYS.some((key) => keys.includes(key))) quit();
  });
  return {
    draw: (lines: readonly string[]): void => update(lines.join("\n")),
    size: () => ({ columns: stdout.columns, rows: stdout.rows - 1 }),
    onResize: (changed: () => void): void => {
      const listener = () => {
        update.clear();
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
