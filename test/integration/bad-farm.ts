/** A farm for bad input: one service that must not notice any of it, a bad origin, and as many further agents as a test wants. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, vi } from "vitest";
import { readPartsConfig } from "../../cli/control-plane/config.ts";
import { findLlamaServer } from "../../cli/control-plane/llama-server.ts";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { type NodeNetwork, startNodeNetwork } from "../cluster/node-network.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { killEngines } from "../system/engines.ts";
import { type Farm, startFarm } from "../system/farm.ts";
import { type Part, startPart } from "../system/part.ts";
import { type BadOrigin, startBadOrigin } from "./bad-origin.ts";
import { servicesOf } from "./services.ts";

const API = "metalbridge.dev/v1alpha1";
const LARGE_BYTES = 64 << 20;

export interface ExtraAgent extends Part {
  readonly stateDir: string;
}

export interface ExtraAgentOptions {
  readonly hostName?: string;
  readonly stateDir?: string;
  readonly kubeconfig?: string;
  readonly llamaServer?: string;
  readonly portRange?: string;
  readonly config?: object;
}

export interface BadFarm extends AsyncDisposable {
  readonly cluster: PrivateCluster;
  readonly network: NodeNetwork;
  readonly farm: Farm;
  readonly origin: BadOrigin;
  readonly services: ReturnType<typeof servicesOf>;
  /** Folder of the test's own. */
  readonly dir: string;
  readonly realEngine: string;
  readonly apply: (...objects: object[]) => Promise<void>;
  readonly get: (kind: string, name: string, namespace?: string) => Promise<Seen>;
  readonly replicasOf: (service: string, namespace?: string) => Promise<readonly Seen[]>;
  readonly agent: (name: string, options?: ExtraAgentOptions) => ExtraAgent;
  /** Controller and agent run, and the good service has the engine it began with, which answered all the time. */
  readonly expectUnharmed: () => Promise<void>;
}

/** What the tests look at of any object. */
export interface Seen {
  readonly metadata: { readonly name: string; readonly uid: string };
  // biome-ignore lint/suspicious/noExplicitAny: as kubectl prints it
  readonly status: any;
}

/** Resolves once the good service is Ready. */
export async function startBadFarm(): Promise<BadFarm> {
  const cleanups: (() => unknown)[] = [];
  const dispose = async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  };
  try {
    return await build(cleanups, dispose);
  } catch (error) {
    await dispose();
    throw error;
  }
}

async function build(cleanups: (() => unknown)[], dispose: () => Promise<void>): Promise<BadFarm> {
  const keep = <T extends AsyncDisposable>(one: T): T => {
    cleanups.push(() => one[Symbol.asyncDispose]());
    return one;
  };
  const cluster = keep(await startCluster({ controllerManager: true }));
  const network = keep(await startNodeNetwork(cluster));
  const settings = writeConfig(path.join(cluster.dir, "agent.yaml"), {});
  const farm = keep(
    await startFarm({
      kubeconfig: cluster.kubeconfig,
      address: network.hostAddress,
      agentArgs: ["--config", settings],
      controllerArgs: ["--allow-loopback", "--stall-ms", "1000", "--look-ms", "3000"],
    }),
  );
  mkdirSync(farm.modelsDir, { recursive: true });
  const file = path.join(farm.modelsDir, "good.gguf");
  await writeTinyGguf(file);
  const origin = keep(await startBadOrigin(readFileSync(file), LARGE_BYTES));
  const services = servicesOf(farm, network);
  await services.applyService("good", "good.gguf", { placement: { hosts: [farm.hostName] } });
  await services.untilReady("good");
  const { pid } = (await services.replicaOf("good")).status;
  const watch = watchService(services, cleanups);
  const get = async (kind: string, name: string, namespace = "default"): Promise<Seen> =>
    JSON.parse(await farm.kubectl(["get", kind, name, "-n", namespace, "-o", "json"]));
  return {
    ...{ cluster, network, farm, origin, services, get },
    dir: farm.dir,
    realEngine: findLlamaServer(readPartsConfig()) ?? "",
    apply: async (...items) => {
      const list = { apiVersion: "v1", kind: "List", items };
      await farm.kubectl(["apply", "-f", "-"], { input: JSON.stringify(list) });
    },
    replicasOf: async (service, namespace = "default") => {
      const selector = `metalbridge.dev/service=${service}`;
      const list = await farm.kubectl(["get", "irep", "-n", namespace, "-l", selector, "-o", "json"]);
      return JSON.parse(list).items;
    },
    agent: (name, options = {}) => startExtra(farm, network, cleanups, name, options),
    expectUnharmed: async () => {
      expect([farm.controller().isRunning(), farm.agent().isRunning()]).toEqual([true, true]);
      const { status } = await services.replicaOf("good");
      expect(status).toMatchObject({ phase: "Ready", pid, restarts: 0 });
      await watch.nextAnswer();
      expect(watch.failures).toEqual([]);
    },
    [Symbol.asyncDispose]: dispose,
  };
}

/** A question every half second: light, but a service that is touched shows. */
function watchService(services: BadFarm["services"], cleanups: (() => unknown)[]) {
  const failures: string[] = [];
  let answers = 0;
  let isOver = false;
  const run = async () => {
    // kube-proxy follows within its sync period; only an answer says that it has.
    await services.chat("good", { max_tokens: 1 });
    while (!isOver) {
      const failure = await services.ask("good", { max_tokens: 1 });
      if (failure === undefined) answers += 1;
      else if (!isOver) failures.push(failure);
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  };
  const running = run();
  cleanups.push(() => {
    isOver = true;
    return running;
  });
  return {
    failures,
    nextAnswer: () => {
      const before = answers;
      return vi.waitFor(() => expect(answers + failures.length).toBeGreaterThan(before), 10_000);
    },
  };
}

let ports = 22_000;

function startExtra(
  farm: Farm,
  network: NodeNetwork,
  cleanups: (() => unknown)[],
  name: string,
  options: ExtraAgentOptions,
): ExtraAgent {
  const stateDir = options.stateDir ?? path.join(farm.dir, name);
  ports += 10;
  const engine = options.llamaServer ?? findLlamaServer(readPartsConfig()) ?? "llama-server";
  const part = startPart(
    [
      "agent",
      "--register",
      ...["--config", writeConfig(path.join(farm.dir, `${name}.yaml`), options.config ?? {})],
      ...["--kubeconfig", options.kubeconfig ?? farm.kubeconfig],
      ...["--host-name", options.hostName ?? name, "--address", network.hostAddress],
      ...["--state-dir", stateDir, "--model-root", farm.modelsDir],
      ...["--llama-server", engine, "--port-range", options.portRange ?? `${ports}-${ports + 9}`],
    ],
    path.join(farm.dir, `${name}.log`),
  );
  cleanups.push(async () => {
    await part.kill("SIGTERM");
    killEngines(stateDir);
  });
  return { ...part, stateDir };
}

/** Loopback sources, short patience. */
function writeConfig(file: string, config: object): string {
  const sources = { allowLoopback: true, stallMs: 500, attempts: 2 };
  writeFileSync(file, JSON.stringify({ disk: { reserve: 0 }, sources, ...config }));
  return file;
}

/** A Model on Metal. */
export function model(name: string, source: string, spec: object = {}, namespace = "default"): object {
  return {
    apiVersion: API,
    kind: "Model",
    metadata: { name, namespace },
    spec: { source, hardware: { accelerator: "metal" }, ...spec },
  };
}

/** A service of the Model of its name, on one host. */
export function service(name: string, host: string, spec: object = {}, namespace = "default"): object {
  return {
    apiVersion: API,
    kind: "InferenceService",
    metadata: { name, namespace },
    spec: {
      modelRef: name,
      contextSize: 256,
      parallelSlots: 1,
      promptCacheMiB: 0,
      placement: { hosts: [host] },
      ...spec,
    },
  };
}
