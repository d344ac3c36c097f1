/** A controller and any number of agents on one cluster, each as the process that users run. The one builder of farms. */
import { mkdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type AgentOptions, startAgent, type TestAgent } from "./agent.ts";
import { type Kubectl, kubectlFor } from "./kubectl.ts";
import { type Part, startPart } from "./part.ts";
import { openReader, type Reader } from "./reader.ts";

/** An agent without what all agents of a farm share. */
export type FarmAgent = Partial<Omit<AgentOptions, "modelsDir">>;

const USUAL_HOST = "mac-under-test";

export interface FarmOptions {
  readonly kubeconfig: string;
  /** What agents register, unless they name another: this machine's side of a test network. */
  readonly address?: string;
  /** By default one, on the host `mac-under-test`; a farm without agents has none to ask for. */
  readonly agents?: readonly FarmAgent[];
  readonly controllerArgs?: readonly string[];
  /** Another installation than this checkout. */
  readonly program?: string;
}

export interface Farm extends AsyncDisposable {
  readonly dir: string;
  readonly kubeconfig: string;
  /** Where file sources may lie. */
  readonly modelsDir: string;
  readonly kubectl: Kubectl;
  /** For polls; a test that shows what users see runs kubectl. */
  readonly reader: Reader;
  readonly controller: () => Part;
  readonly restartController: () => Part;
  readonly agents: readonly TestAgent[];
  readonly addAgent: (options: FarmAgent) => TestAgent;
  /** Of the first agent. */
  readonly hostName: string;
  readonly stateDir: string;
  readonly agent: () => Part;
  readonly restartAgent: TestAgent["restart"];
}

/** Starts all parts at once; nothing is waited for. Disposal also kills the engines that the agents left running. */
export async function startFarm(options: FarmOptions): Promise<Farm> {
  const { kubeconfig, program } = options;
  const reader = await openReader(kubeconfig);
  const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-farm-"));
  const modelsDir = path.join(dir, "models");
  mkdirSync(modelsDir);
  const startController = () =>
    startPart(
      ["controller", "--kubeconfig", kubeconfig, "--health-port", "0", ...(options.controllerArgs ?? [])],
      path.join(dir, "controller.log"),
      program,
    );
  const all: TestAgent[] = [];
  const addAgent: Farm["addAgent"] = (agent) => {
    const { hostName = USUAL_HOST, name = hostName } = agent;
    const own = { hostName, stateDir: path.join(dir, name) };
    const shared = { kubeconfig, modelsDir, ...definedOf({ address: options.address, program }) };
    const added = startAgent({ ...shared, ...own, ...agent });
    all.push(added);
    return added;
  };
  let controller = startController();
  const agents = (options.agents ?? [{}]).map(addAgent);
  const first = (): TestAgent => {
    const [agent] = agents;
    if (agent === undefined) throw new Error("this farm has no agent");
    return agent;
  };
  return {
    ...{ dir, kubeconfig, modelsDir, agents, addAgent },
    ...{ kubectl: kubectlFor(kubeconfig), reader },
    controller: () => controller,
    restartController: () => {
      controller = startController();
      return controller;
    },
    get hostName() {
      return first().hostName;
    },
    get stateDir() {
      return first().stateDir;
    },
    agent: () => first().part(),
    restartAgent: (change) => first().restart(change),
    [Symbol.asyncDispose]: async () => {
      reader[Symbol.dispose]();
      const ended = all.map((agent) => agent[Symbol.asyncDispose]());
      await Promise.all([...ended, controller.kill("SIGTERM")]);
      // The shims of killed engines still write how they ended.
      await rm(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    },
  };
}

/** Without what is undefined, so that it hides nothing where it is spread. */
function definedOf<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const defined = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(defined) as { [K in keyof T]?: Exclude<T[K], undefined> };
}
