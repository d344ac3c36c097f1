/** The machine that the program runs on, as the density API knows machines. Every call reads it again; no cluster is needed. */
import { homedir, hostname } from "node:os";
import { delimiter } from "node:path";
import { createHostReader } from "../../agent/host/reader.ts";
import { readInstalled } from "../../agent/inventory/installed.ts";
import { runtimesOnPath } from "../../agent/inventory/processes.ts";
import { nodeReaderPaths, parseNodeConfig } from "../../agent/node/config.ts";
import { readNodeOnce } from "../../agent/node/main.ts";
import { type DensityMachine, machineFromHost, machineFromReport } from "../../fitness/density/place.ts";
import { hostSchema } from "../../src/api/host.ts";
import { createRunCommand } from "../../src/util/command.ts";

export interface LocalMachineOptions {
  readonly platform: NodeJS.Platform;
  /** Where tools of the system and engines are looked for. */
  readonly toolPath: string;
  readonly home?: string;
}

/** Programs that were started from the Dock have a PATH without these. */
const MORE_FOLDERS = ["/usr/sbin", "/sbin", "/opt/homebrew/bin", "/usr/local/bin"];

/** With the engines that are installed and do not run. */
export async function readLocalMachine({
  platform,
  toolPath,
  home = homedir(),
}: LocalMachineOptions): Promise<DensityMachine> {
  const path = [toolPath, ...MORE_FOLDERS].join(delimiter);
  const [place, programs] = await Promise.all([
    platform === "darwin" ? readMac(path, home) : readLinux(),
    runtimesOnPath(path),
  ]);
  const running = place.runtimes.map(({ name }) => name);
  const others = programs.filter(({ name }) => !running.includes(name));
  return { ...place, runtimes: [...place.runtimes, ...others] };
}

async function readLinux(): Promise<DensityMachine> {
  return machineFromReport(hostname(), await readNodeOnce(parseNodeConfig({})));
}

async function readMac(path: string, home: string): Promise<DensityMachine> {
  const reader = createHostReader("darwin", createRunCommand(path));
  const [info, { totalBytes, availableBytes }, gpuBudgetBytes, { runtimes, models }] = await Promise.all([
    ...([reader.info(), reader.memory(), reader.gpuBudgetBytes()] as const),
    readInstalled({ ...nodeReaderPaths(parseNodeConfig({})).installed, homes: [home] }),
  ]);
  const memory = {
    totalBytes,
    availableBytes,
    gpuBudgetBytes,
  };
  const installed = models.map(({ name: source, ...rest }) => ({ source, ...rest }));
  const host = hostSchema.parse({ metadata: { name: hostname() } });
  return machineFromHost({ ...host, status: { info, memory, runtimes: [...runtimes], installed } });
}
