/** `metalbridge console`: serves the console on this machine, with the permissions of the caller's kubeconfig. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { type Command, Option } from "commander";
import { readEnvironment } from "../agent/config/environment.ts";
import { packageVersion } from "../local/package-root.ts";
import { parseServerConfig } from "../server/config.ts";
import type { ReadLocalLog } from "../server/console/logs/sources.ts";
import { createCodes } from "../server/console/sign-in.ts";
import { runServer } from "../server/main.ts";
import { CONSOLE_PATH } from "../src/console/protocol.ts";
import { writeFileAtomic } from "../src/util/atomic-file.ts";
import { catalogOption, readCatalogFiles } from "./catalog/read.ts";
import { namespaceOfContext } from "./cluster/cluster.ts";
import {
  addClusterFlags,
  type ClusterFlags,
  type DaemonFlags,
  logLevelOption,
  parseName,
  parsePort,
} from "./cluster/flags.ts";
import { findLocalAgent } from "./install/local-agent.ts";
import { readLog } from "./logs/read-log.ts";
import { createJsonLog } from "./program/json-log.ts";
import { printLine, printNote } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";
import { addConsoleFlags, consoleFolder } from "./server.ts";

interface ConsoleFlags extends DaemonFlags, ClusterFlags {
  readonly open: boolean;
  readonly catalog?: readonly string[];
  readonly addressFile?: string;
  readonly [setting: string]: unknown;
}

const LOOPBACK = "127.0.0.1";

/** Options and action of the verb. */
export function configureConsole(command: Command): void {
  addConsoleFlags(addClusterFlags(command))
    .option(
      "-n, --namespace <name>",
      "namespace that is shown without the right to all (default: the namespace of the context, else default)",
      parseName,
    )
    .option("--port <n>", "port on 127.0.0.1; 0 chooses a free port", parsePort, 0)
    .option("--no-open", "do not open the browser")
    .addOption(catalogOption())
    .addOption(logLevelOption().default("warn"))
    // For the verb that has started this one.
    .addOption(new Option("--address-file <file>").hideHelp())
    .addOption(new Option("--exit-with-stdin").hideHelp())
    .action(openConsole);
}

async function openConsole(flags: ConsoleFlags): Promise<void> {
  const { open, catalog, logLevel, addressFile, exitWithStdin, namespace, ...settings } = flags;
  const config = parseServerConfig({ ...settings, address: LOOPBACK, healthPort: 0 });
  const { records } = await readCatalogFiles(catalog);
  const stop = listenForStop({ exitWithStdin });
  let port = 0;
  const addressWith = (code: string) => `http://${LOOPBACK}:${port}${CONSOLE_PATH}/#code=${code}`;
  const publish = async (code: string) => {
    if (addressFile !== undefined) await writeFileAtomic(addressFile, addressWith(code));
  };
  const codes = createCodes((next) => {
    printNote(`to open it in another browser: ${addressWith(next)}`);
    void publish(next).catch((error: unknown) => printNote(String(error)));
  });
  await runServer({
    config,
    records,
    version: packageVersion(),
    log: createJsonLog(logLevel),
    console: {
      folder: consoleFolder(),
      codes,
      namespace:
        namespace ?? namespaceOfContext({ kubeconfigPath: config.kubeconfig, context: config.context }),
      readLocalLog: await localLogs(flags),
    },
    signal: stop.signal,
    onListening: ({ api }) => {
      port = api;
      const address = addressWith(codes.current());
      printLine(address);
      void publish(codes.current()).catch((error: unknown) => printNote(String(error)));
      if (open) openBrowser(address);
    },
  });
  process.exitCode = stop.exitCode();
}

/** Logs of the agent on this machine, if this user may read them. */
async function localLogs({ kubeconfig }: ClusterFlags): Promise<ReadLocalLog | undefined> {
  const agent = await findLocalAgent({ kubeconfig }).catch(() => undefined);
  if (agent === undefined) return undefined;
  return ({ uid }, { tail, follow, signal }) => {
    const dir = path.join(agent.stateDir, "engines", uid);
    if (!existsSync(dir)) return undefined;
    return readLog(dir, { range: { lines: tail }, follow, signal, note: () => {} });
  };
}

/** Does nothing on a machine without a display. A browser that does not start is no failure: the address is printed. */
function openBrowser(address: string): void {
  const { DISPLAY, WAYLAND_DISPLAY } = readEnvironment().all;
  const hasDisplay = process.platform === "darwin" || (DISPLAY ?? WAYLAND_DISPLAY ?? "") !== "";
  if (!hasDisplay) return;
  const program = process.platform === "darwin" ? "open" : "xdg-open";
  const child = spawn(program, [address], { stdio: "ignore", detached: true });
  child.once("error", () => {});
  child.unref();
}
