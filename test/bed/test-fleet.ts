/**
 * A controller and any number of agents on one cluster, each as the process that users run, with the credential that users
 * give it. The one builder of farms.
 */

import { mkdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { defined } from "../../src/util/defined.ts";
import { type AgentOptions, startAgent, type TestAgent } from "./agent.ts";
import { addHost, giveControllerIdentity, giveIdentity } from "./identity.ts";
import { type Kubectl, kubectlFor } from "./kubectl.ts";
import { type Objects, objectsOf } from "./objects.ts";
import { type Part, startPart } from "./part.ts";

/** An agent without what all agents of a farm share. With a kubeconfig of its own it gets no other, and no Host. */
export type FleetAgent = Partial<Omit<AgentOptions, "modelsDir">>;

const USUAL_HOST = "mac-under-test";

export interface TestFleetOptions {
  /** An administrator's. */
  readonly kubeconfig: string;
  /** What Hosts are registered with, unless an agent names another: this machine's side of a test network. */
  readonly address?: string;
  /** By default one, on the host `mac-under-test`; a farm without agents has none to ask for. */
  readonly agents?: readonly FleetAgent[];
  /** True if engines are paced, for agents whose options leave it open. */
  readonly pace?: boolean;
  readonly controllerArgs?: readonly string[];
  /** Benchmarks run on idle hosts. They are off by default, because they use the hosts of the test. */
  readonly benchmarks?: boolean;
  /** Another installation than this checkout. */
  readonly program?: string;
  /** By default one with the rights of examples/install. */
  readonly controllerKubeconfig?: string;
}

export interface TestFleet extends AsyncDisposable {
  readonly dir: string;
  /** An administrator's. */
  readonly kubeconfig: string;
  /** Where file sources may lie. */
  readonly modelsDir: string;
  readonly kubectl: Kubectl;
  /** For polls; a test that shows what users see runs kubectl. */
  readonly objects: Objects;
  readonly controller: () => Part;
  readonly restartController: () => Part;
  readonly agents: readonly TestAgent[];
  readonly addAgent: (options: FleetAgent) => Promise<TestAgent>;
  /** A host and a credential of its own: the path of its kubeconfig. */
  readonly join: (hostName: string, address?: string) => Promise<string>;
  /** Of the first agent. */
  readonly hostName: string;
  readonly stateDir: string;
  readonly agent: () => Part;
  readonly restartAgent: TestAgent["restart"];
}

/** Starts all parts at once; nothing is waited for. Disposal also kills the engines that the agents left running. */
export async function startFleet(options: TestFleetOptions): Promise<TestFleet> {
  const { kubeconfig, program } = options;
  const objects = objectsOf(kubeconfig);
  const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-farm-"));
  const modelsDir = path.join(dir, "models");
  mkdirSync(modelsDir);
  const controllerKubeconfig = options.controllerKubeconfig ?? path.join(dir, "controller.kubeconfig");
  if (options.controllerKubeconfig === undefined)
    await giveControllerIdentity({ kubeconfig }, controllerKubeconfig);
  const flags = [
    "--kubeconfig",
    controllerKubeconfig,
    "--health-port",
    "0",
    ...(options.benchmarks === true ? [] : ["--benchmarks", "Off"]),
    ...(options.controllerArgs ?? []),
  ];
  const startController = () =>
    startPart(["controller", ...flags], path.join(dir, "controller.log"), program);
  const all: TestAgent[] = [];
  const join: TestFleet["join"] = async (hostName, address = options.address) => {
    const file = path.join(dir, `${hostName}.kubeconfig`);
    if (address !== undefined) await addHost({ kubeconfig }, hostName, [address]);
    await giveIdentity({ kubeconfig }, hostName, file);
    return file;
  };
  const addAgent: TestFleet["addAgent"] = async (agent) => {
    const { hostName = USUAL_HOST, name = hostName } = agent;
    const own = { hostName, stateDir: path.join(dir, name) };
    const shared = { modelsDir, ...defined({ address: options.address, program, pace: options.pace }) };
    const joined = agent.kubeconfig ?? (await join(hostName, agent.address));
    const added = startAgent({ ...shared, ...own, ...agent, kubeconfig: joined });
    all.push(added);
    return added;
  };
  let controller = startController();
  const agents = await Promise.all((options.agents ?? [{}]).map(addAgent));
  const first = (): TestAgent => {
    const [agent] = agents;
    if (agent === undefined) throw new Error("this farm has no agent");
    return agent;
  };
  return {
    dir,
    kubeconfig,
    modelsDir,
    agents,
    addAgent,
    join,
    kubectl: kubectlFor(kubeconfig),
    objects,
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
      objects[Symbol.dispose]();
      const ended = all.map((agent) => agent[Symbol.asyncDispose]());
      await Promise.all([...ended, controller.kill("SIGTERM")]);
      const refused = [controller, ...all.map(({ part }) => part())].flatMap(refusedOf);
      // The shims of killed engines still write how they ended.
      await rm(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
      if (refused.length > 0) throw new Error(`a part was refused what it tried:\n${refused.join("\n")}`);
    },
  };
}

/**
 * A right that a part lacks need not show in what it does. A namespace that is being deleted takes nothing new; and an API
 * server that has just started refuses everything until it has read its roles, so whoever saw it away says nothing here.
 */
function refusedOf(part: Part): readonly string[] {
  const log = part.log();
  if (/ApiUn(reachable|available)/.test(log)) return [];
  return log.split("\n").filter((line) => line.includes("orbidden") && !line.includes("being terminated"));
}
