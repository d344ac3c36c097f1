/** An agent as a process: its command line is put together here and nowhere else. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findLlamaServer } from "../../local/control-plane/engine-programs.ts";
import { killEngines } from "./engines.ts";
import { paceEngine } from "./pace.ts";
import { type Part, startPart } from "./part.ts";
import { enginePorts } from "./ports.ts";

/**
 * Flags of every engine that tests start: llama-server's threads spin while they wait for each other, so that engines with
 * a thread for each core take turns for minutes where others want the cores too.
 */
export const ONE_THREAD: readonly string[] = ["--threads", "1"];

export interface AgentOptions {
  readonly kubeconfig: string;
  readonly hostName: string;
  /** Of its log and its configuration beside the state folder; by default the host's. */
  readonly name?: string;
  readonly stateDir: string;
  /** By default the agent finds it. */
  readonly address?: string;
  /** Where file sources may lie. */
  readonly modelsDir?: string;
  /** First and last, such as "23500-23500"; by default ports that no other agent gets. */
  readonly portRange?: string;
  /** By default the one that setup provides. */
  readonly llamaServer?: string | undefined;
  /** True: its engines get a tenth of a core, for requests that last. `pacedTokens` says how many tokens take how long. */
  readonly pace?: boolean;
  /** Its configuration file. */
  readonly config?: object;
  readonly args?: readonly string[];
  /** Another installation than this checkout. */
  readonly program?: string;
  /** Runs the program: Node, or something that becomes Node in another place. */
  readonly launcher?: readonly string[];
}

/** What is different of one start. */
export type StartChange = Pick<AgentOptions, "args" | "program" | "launcher">;

export interface TestAgent extends AsyncDisposable {
  readonly hostName: string;
  readonly stateDir: string;
  readonly part: () => Part;
  /** The next agent on the same state folder, once the one before has exited. `args` come on top. */
  readonly restart: (change?: StartChange) => Part;
}

/** Disposal also kills the engines that it left running. */
export function startAgent(options: AgentOptions): TestAgent {
  const { hostName, stateDir } = options;
  const paced =
    options.pace === true ? paceEngine(fileOf(options, "engine"), options.llamaServer) : undefined;
  const args = agentArgs({ ...options, llamaServer: paced?.program ?? options.llamaServer });
  const start = (change: StartChange = {}) =>
    startPart(
      [...args, ...(change.args ?? [])],
      fileOf(options, "log"),
      change.program ?? options.program,
      change.launcher ?? options.launcher,
    );
  let part = start();
  return {
    hostName,
    stateDir,
    part: () => part,
    restart: (change) => {
      part = start(change);
      return part;
    },
    [Symbol.asyncDispose]: async () => {
      await part.kill("SIGTERM");
      killEngines(stateDir);
      await paced?.[Symbol.asyncDispose]();
    },
  };
}

/** Agents of one machine would want the same port. */
const NO_PEERS = { peers: { enabled: false } };

/** Its arguments; the configuration file is written. */
export function agentArgs(options: AgentOptions): readonly string[] {
  const { kubeconfig, hostName, stateDir, address, modelsDir } = options;
  const config = fileOf(options, "yaml");
  mkdirSync(path.dirname(config), { recursive: true });
  writeFileSync(config, JSON.stringify({ ...NO_PEERS, ...options.config }));
  const llamaServer = options.llamaServer ?? findLlamaServer(readPartsConfig());
  return [
    ...["agent", "--config", config, "--kubeconfig", kubeconfig],
    ...["--host-name", hostName, "--state-dir", stateDir],
    ...["--port-range", options.portRange ?? enginePorts().join("-")],
    ...(address === undefined ? [] : ["--address", address]),
    ...(modelsDir === undefined ? [] : ["--model-root", modelsDir]),
    ...(llamaServer === undefined ? [] : ["--llama-server", llamaServer]),
    ...(options.args ?? []),
  ];
}

function fileOf({ stateDir, hostName, name = hostName }: AgentOptions, ending: string): string {
  return path.join(path.dirname(stateDir), `${name}.${ending}`);
}
