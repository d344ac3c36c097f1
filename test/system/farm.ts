/** One cluster with a controller and one agent, on an address that an EndpointSlice may hold. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { readPartsConfig } from "../../cli/control-plane/config.ts";
import { findLlamaServer } from "../../cli/control-plane/llama-server.ts";
import { type Kubectl, kubectlFor } from "../cluster/kubectl.ts";
import { killEngines } from "./engines.ts";
import { type Part, startPart } from "./part.ts";

export interface FarmOptions {
  readonly kubeconfig: string;
  /** The agent's address: this machine's side of a test network. */
  readonly address: string;
  readonly hostName?: string;
  readonly agentArgs?: readonly string[];
  readonly controllerArgs?: readonly string[];
  /** Another installation than this checkout. */
  readonly program?: string;
}

export interface Farm extends AsyncDisposable {
  readonly dir: string;
  readonly kubeconfig: string;
  readonly stateDir: string;
  /** Where file sources may lie. */
  readonly modelsDir: string;
  readonly hostName: string;
  readonly kubectl: Kubectl;
  readonly controller: () => Part;
  readonly agent: () => Part;
  /** Another agent on the same state folder, after the first has ended; `launcher` and `program` as in `startPart`. */
  readonly restartAgent: (
    extraArgs?: readonly string[],
    launcher?: readonly string[],
    program?: string,
  ) => Part;
  readonly restartController: () => Part;
}

/** Starts both parts at once; nothing is waited for. Disposal also ends engines that the agent left running. */
export async function startFarm(options: FarmOptions): Promise<Farm> {
  const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-farm-"));
  const stateDir = path.join(dir, "agent");
  const modelsDir = path.join(dir, "models");
  const hostName = options.hostName ?? "mac-under-test";
  const shared = ["--kubeconfig", options.kubeconfig];
  const llamaServer = findLlamaServer(readPartsConfig());
  const engine = llamaServer === undefined ? [] : ["--llama-server", llamaServer];
  const startAgent = (
    extra: readonly string[] = [],
    launcher?: readonly string[],
    program = options.program,
  ) =>
    startPart(
      [
        "agent",
        ...shared,
        "--register",
        ...["--host-name", hostName, "--address", options.address],
        ...["--state-dir", stateDir, "--model-root", modelsDir],
        ...engine,
        ...(options.agentArgs ?? []),
        ...extra,
      ],
      path.join(dir, "agent.log"),
      program,
      launcher,
    );
  const startController = () =>
    startPart(
      ["controller", ...shared, "--health-port", "0", ...(options.controllerArgs ?? [])],
      path.join(dir, "controller.log"),
      options.program,
    );
  let controller = startController();
  let agent = startAgent();
  return {
    dir,
    kubeconfig: options.kubeconfig,
    stateDir,
    modelsDir,
    hostName,
    kubectl: kubectlFor(options.kubeconfig),
    controller: () => controller,
    agent: () => agent,
    restartAgent: (extra, launcher, program) => {
      agent = startAgent(extra, launcher, program);
      return agent;
    },
    restartController: () => {
      controller = startController();
      return controller;
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([agent.kill("SIGTERM"), controller.kill("SIGTERM")]);
      killEngines(stateDir);
      // The keepers of killed engines still write how they ended.
      await rm(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    },
  };
}
