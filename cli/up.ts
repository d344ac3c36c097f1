/** `metalbridge up`: runs a control plane in a folder until it is stopped. */

import { readFileSync } from "node:fs";
import path from "node:path";
import type { Command } from "commander";
import { type KeptProgram, keepChild } from "../local/children.ts";
import { type ConsolePlan, consoleAddress, planConsole, startConsole } from "../local/console.ts";
import {
  digestOf,
  parseSchedulerConfig,
  type SchedulerConfig,
} from "../local/control-plane/components/scheduler.ts";
import { readPartsConfig } from "../local/control-plane/config.ts";
import { startDetached } from "../local/control-plane/detach.ts";
import { findEnvoy } from "../local/control-plane/engine-programs.ts";
import { type OpenOptions, openControlPlane } from "../local/control-plane/open.ts";
import { findClusterParts, requireScheduler } from "../local/control-plane/parts.ts";
import {
  findControlPlaneSession,
  requireSchedulerConfig,
  type SessionInfo,
} from "../local/control-plane/session.ts";
import { type GatewayPlan, planGateway } from "../local/gateway.ts";
import { shellWord } from "../local/shell-word.ts";
import { createTerminalLog } from "../local/terminal-log.ts";
import { customResourceDefinitions } from "../src/api/crd/definitions.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { errorMessage } from "../src/util/error-message.ts";
import { parsePort, userJwtSecretFileOption } from "./cluster/flags.ts";
import { printLine, writeErr } from "./program/output.ts";
import { listenForStop, whenAborted } from "./program/stop-signals.ts";

const PART_GRACE_MS = 5_000;

interface UpOptions {
  readonly dir: string;
  readonly port?: number;
  readonly schedulerConfig?: string;
  readonly gateway: boolean;
  readonly console: boolean;
  readonly gatewayAddress?: string;
  readonly userJwtSecretFile?: string;
  readonly detach?: boolean;
}

/** Options and action of the verb. */
export function configureUp(command: Command): void {
  command
    .option("--dir <folder>", "folder for state, logs and the kubeconfig", ".metalbridge")
    .option(
      "--port <number>",
      "port of the API server (default: a free port, which later starts reuse)",
      parsePort,
    )
    .option(
      "--scheduler-config <file>",
      "also start kube-scheduler, with this KubeSchedulerConfiguration; its clientConnection and leaderElection are replaced",
    )
    .option("--no-gateway", "do not start the gateway, which serves all models under one base URL")
    .option("--no-console", "do not start the console")
    .option(
      "--gateway-address <ip>",
      "address on which the gateway listens as soon as there is a key (default: loopback)",
    )
    .addOption(userJwtSecretFileOption())
    .option("--detach", "run in the background, and return when the control plane is ready")
    .addHelpText(
      "after",
      "\nThe kubeconfig is <folder>/kubeconfig. Run `metalbridge down` to stop a detached control plane.",
    )
    .action(up);
}

async function up(options: UpOptions): Promise<void> {
  const dir = path.resolve(options.dir);
  const schedulerFile = options.schedulerConfig && path.resolve(options.schedulerConfig);
  const schedulerConfig = schedulerFile ? readSchedulerConfig(schedulerFile) : undefined;
  const other = await findControlPlaneSession(dir);
  if (other !== undefined) {
    requireSchedulerConfig(dir, other, digestOf(schedulerConfig));
    return await announce(other, "already running");
  }
  const config = readPartsConfig();
  const parts = findClusterParts(config);
  if (schedulerConfig !== undefined) requireScheduler(parts, config);
  const { port, gateway, console: hasConsole, gatewayAddress, userJwtSecretFile } = options;
  if (options.detach === true) {
    const info = await startDetached({
      dir,
      port,
      schedulerConfig: schedulerFile,
      gateway,
      console: hasConsole,
      gatewayAddress,
      userJwtSecretFile,
    });
    return await announce(info, "running");
  }
  const envoy = gateway ? findEnvoy(config) : undefined;
  const plan =
    envoy === undefined
      ? undefined
      : await planGateway(dir, envoy, { address: gatewayAddress, userJwtSecretFile });
  const page = hasConsole ? await planConsole(dir, plan) : undefined;
  await runInForeground({ dir, port, parts, schedulerConfig }, { gateway: plan, page });
}

/** The gateway is optional: where it cannot run, the control plane runs on, and the log of the gateway has the reason. */
function startGateway({ args }: GatewayPlan, kubeconfig: string, dir: string): KeptProgram {
  const flags = ["gateway", "--kubeconfig", kubeconfig, "--exit-with-stdin", ...args];
  return keepChild("gateway", flags, path.join(dir, "logs", "gateway.log"), printErr);
}

function printErr(line: string): void {
  writeErr(`${line}\n`);
}

function readSchedulerConfig(file: string): SchedulerConfig {
  try {
    return parseSchedulerConfig(readFileSync(file, "utf8"), file);
  } catch (cause) {
    if (cause instanceof MetalbridgeError) throw cause;
    throw new MetalbridgeError("SchedulerConfigInvalid", `${file}: ${errorMessage(cause)}`, undefined, {
      cause,
    });
  }
}

async function runInForeground(
  plan: Pick<OpenOptions, "dir" | "parts" | "port" | "schedulerConfig">,
  { gateway, page }: { readonly gateway: GatewayPlan | undefined; readonly page: ConsolePlan | undefined },
): Promise<void> {
  const request = listenForStop();
  const finished = Promise.withResolvers<void>();
  try {
    const baseUrl = gateway && `${gateway.url}/v1`;
    const consoleFile = page?.addressFile;
    const open = await openControlPlane({
      ...plan,
      baseUrl,
      consoleFile,
      crds: customResourceDefinitions(),
      log: createTerminalLog((line) => writeErr(line)),
      signal: request.signal,
      onStopOrder: () => {
        request.stop();
        return finished.promise;
      },
    });
    const { kubeconfig, url } = open.controlPlane;
    const children = [
      gateway && startGateway(gateway, kubeconfig, plan.dir),
      page && startConsole(page, kubeconfig, printErr),
    ];
    const info = { pid: process.pid, state: "ready", kubeconfig, url, baseUrl, consoleFile } as const;
    await announce(info, "running", request.signal);
    await whenAborted(request.signal);
    printLine("stopping");
    await Promise.all(children.map((child) => child?.stop(PART_GRACE_MS)));
    await open.close();
  } catch (error) {
    // Stopped during the start: all parts are stopped again, and this is not an error.
    if (!request.signal.aborted) throw error;
  } finally {
    finished.resolve();
  }
  process.exitCode = request.exitCode();
}

/** The console comes last, because it starts last. */
async function announce(info: SessionInfo, what: string, signal?: AbortSignal): Promise<void> {
  const { baseUrl, consoleFile } = info;
  if (baseUrl !== undefined)
    printLine(`gateway at ${baseUrl}, for all models; to list them: curl ${baseUrl}/models`);
  printLine(`control plane ${what} at ${info.url ?? "(starting)"} (process ${info.pid})`);
  if (info.kubeconfig !== "") printLine(`export KUBECONFIG=${shellWord(info.kubeconfig)}`);
  const address = consoleFile && (await consoleAddress(consoleFile, signal));
  if (address !== undefined) printLine(`console at ${address}`);
}
