/** The console of a fleet on this machine, as a child process of a verb. */
import { readFile, rm } from "node:fs/promises";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type KeptProgram, keepChild } from "./children.ts";
import { freeLoopbackPort, type GatewayPlan } from "./gateway.ts";

export interface ConsolePlan {
  /** Contains the address with a code that has not been used. */
  readonly addressFile: string;
  readonly logFile: string;
  /** Arguments of `metalbridge console`, beside the kubeconfig. */
  readonly args: readonly string[];
}

/** A usual port, so that a bookmark still works after a restart. */
const CONSOLE_PORT = 4080;
const READY_MS = 30_000;
const CHECK_MS = 50;

/** Uses a free port if another program has the usual one. */
export async function planConsole(dir: string, gateway: GatewayPlan | undefined): Promise<ConsolePlan> {
  const addressFile = path.join(dir, "console.url");
  await rm(addressFile, { force: true });
  const port = (await freeLoopbackPort(CONSOLE_PORT)) ?? 0;
  const args = ["--no-open", "--port", String(port), "--address-file", addressFile];
  if (gateway !== undefined)
    args.push("--gateway-url", gateway.url, "--gateway-health-url", gateway.healthUrl);
  return { addressFile, logFile: path.join(dir, "logs", "console.log"), args };
}

/** `print` gets a line whenever it has exited and is started again. */
export function startConsole(
  { args, logFile }: ConsolePlan,
  kubeconfig: string,
  print: (line: string) => void,
): KeptProgram {
  const flags = ["console", "--kubeconfig", kubeconfig, "--exit-with-stdin", ...args];
  return keepChild("console", flags, logFile, print);
}

/** Resolves once the console listens; with undefined if it does not in time. */
export async function consoleAddress(addressFile: string, signal?: AbortSignal): Promise<string | undefined> {
  const deadline = performance.now() + READY_MS;
  while (performance.now() < deadline && signal?.aborted !== true) {
    const address = await readFile(addressFile, "utf8").catch(() => "");
    if (address !== "") return address.trim();
    await pause(CHECK_MS);
  }
  return undefined;
}
