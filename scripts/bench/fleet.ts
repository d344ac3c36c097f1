/** Several hosts on one machine, each an agent of its own, behind the real kube-proxy of a node's network. */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { readPartsConfig } from "../../cli/control-plane/config.ts";
import { findLlamaServer } from "../../cli/control-plane/llama-server.ts";
import { LABEL_SERVICE } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { SERVICES } from "../../src/kube/kinds.ts";
import { kubectlFor } from "../../test/cluster/kubectl.ts";
import { type NodeNetwork, startNodeNetwork } from "../../test/cluster/node-network.ts";
import { writeTinyGguf } from "../../test/fixtures/tiny-gguf.ts";
import { killEngines } from "../../test/system/engines.ts";
import { type Part, startPart } from "../../test/system/part.ts";
import { expectOk, isTrue, NAMESPACE, openPlane, type Plane } from "./plane.ts";
import { installRelease } from "./release.ts";
import { isReady } from "./scenarios/start.ts";

export interface FleetHost {
  readonly name: string;
  readonly agent: () => Part;
  /** Ends the agent with TERM, as an upgrade does, and starts the other release over its state; resolves when that has adopted what runs. */
  readonly upgrade: () => Promise<void>;
}

export interface Fleet extends Plane {
  readonly network: NodeNetwork;
  readonly fleetHosts: readonly FleetHost[];
  /** The address that a client in the cluster would use. */
  readonly urlOf: (service: string) => Promise<string>;
  readonly replicasOf: (service: string) => readonly InferenceReplica[];
  /** All wanted replicas serve. */
  readonly untilServing: (service: string, count: number) => Promise<void>;
}

/** Controller, `count` agents and kube-proxy run, every Host and the Model are ready. */
export async function openFleet(count: number): Promise<Fleet> {
  const plane = await openPlane();
  try {
    const { kubeconfig } = plane.controlPlane;
    const network = await startNodeNetwork({ kubeconfig, kubectl: kubectlFor(kubeconfig) });
    plane.atEnd(async () => network[Symbol.asyncDispose]());
    const releases = [
      await installRelease(path.join(plane.dir, "release-a"), "0.1.0-bench.1"),
      await installRelease(path.join(plane.dir, "release-b"), "0.1.0-bench.2"),
    ] as const;
    const logFile = path.join(plane.dir, "controller.log");
    const args = ["controller", "--kubeconfig", kubeconfig, "--health-port", "0"];
    const controller = startPart(args, logFile, releases[0]);
    plane.atEnd(() => controller.kill("SIGTERM"));
    const models = path.join(plane.dir, "models");
    mkdirSync(models);
    const fleetHosts = Array.from({ length: count }, (_, index) =>
      startHost({ plane, releases, index, models, address: network.hostAddress }),
    );
    const source = path.join(models, "bench.gguf");
    await writeTinyGguf(source);
    await plane.changed.until(`${count} Hosts that are ready`, () => {
      const ready = plane.hosts.list().filter(({ status }) => isTrue(status?.conditions, "Ready"));
      return ready.length === count ? true : undefined;
    });
    await plane.createModel(source);
    return { ...plane, network, fleetHosts, ...looksAt(plane) };
  } catch (error) {
    await plane[Symbol.asyncDispose]();
    throw error;
  }
}

interface HostSetup {
  readonly plane: Plane;
  readonly releases: readonly [string, string];
  readonly index: number;
  readonly models: string;
  readonly address: string;
}

const PORTS_EACH = 20;
const FIRST_PORT = 23_000;

function startHost({ plane, releases, index, models, address }: HostSetup): FleetHost {
  const name = `mac-${index + 1}`;
  const stateDir = path.join(plane.dir, name);
  const from = FIRST_PORT + index * PORTS_EACH;
  const engine = findLlamaServer(readPartsConfig());
  let isOther = false;
  const start = () =>
    startPart(
      [
        ...["agent", "--register", "--kubeconfig", plane.controlPlane.kubeconfig],
        ...["--host-name", name, "--address", address, "--state-dir", stateDir, "--model-root", models],
        ...["--port-range", `${from}-${from + PORTS_EACH - 1}`],
        ...(engine === undefined ? [] : ["--llama-server", engine]),
      ],
      path.join(plane.dir, `${name}.log`),
      releases[isOther ? 1 : 0],
    );
  let agent = start();
  plane.atEnd(async () => {
    await agent.kill("SIGTERM");
    killEngines(stateDir);
  });
  const upgrade = async () => {
    await agent.kill("SIGTERM");
    const starts = startsIn(agent);
    isOther = !isOther;
    agent = start();
    await untilStarted(agent, starts);
  };
  return { name, agent: () => agent, upgrade };
}

const POLL_MS = 20;
const START_TIMEOUT_MS = 30_000;

/** The agent says so once everything that runs is adopted. */
async function untilStarted(agent: Part, before: number): Promise<void> {
  for (const until = performance.now() + START_TIMEOUT_MS; startsIn(agent) <= before; ) {
    if (performance.now() > until) throw new Error(`the agent did not start:\n${agent.log().slice(-2_000)}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function startsIn(agent: Part): number {
  return agent.log().split('"msg":"agent started"').length - 1;
}

function looksAt({ client, replicas, slices, changed }: Plane) {
  const replicasOf = (service: string) =>
    replicas.list().filter(({ metadata }) => metadata.labels?.[LABEL_SERVICE] === service);
  return {
    replicasOf,
    urlOf: async (service: string) => {
      const found = expectOk(await client.get(SERVICES, { name: service, namespace: NAMESPACE }));
      return `http://${found.spec?.clusterIP}:8080/v1/chat/completions`;
    },
    untilServing: async (service: string, count: number) => {
      await changed.until(`${count} serving replicas of ${service}`, () => {
        const serving = replicasOf(service).filter(({ metadata }) => {
          const slice = slices.get(`${metadata.namespace}/${metadata.name}`);
          return slice !== undefined && isReady(slice);
        });
        return serving.length === count || undefined;
      });
    },
  };
}
