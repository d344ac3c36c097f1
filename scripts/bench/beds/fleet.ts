/** Several hosts on one machine, each an agent of its own, behind the real kube-proxy of a node's network. */
import path from "node:path";
import { LABEL_SERVICE } from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { SERVICES } from "../../../src/kube/kinds.ts";
import type { TestAgent } from "../../../test/bed/agent.ts";
import { kubectlFor } from "../../../test/bed/kubectl.ts";
import { type NodeNetwork, startNodeNetwork } from "../../../test/bed/node-network.ts";
import type { Part } from "../../../test/bed/part.ts";
import { installRelease, programIn } from "../../../test/bed/release.ts";
import { addFleet, type Bed, disposedOnFailure, isSliceReady } from "./bed.ts";
import { expectOk, NAMESPACE, openPlane, type Plane } from "./plane.ts";

export interface BenchFleet extends Bed {
  readonly network: NodeNetwork;
  /** Stops the agent with TERM, as an upgrade does, and starts the other version over its state; resolves once that has adopted what runs. */
  readonly upgrade: (agent: TestAgent) => Promise<void>;
  /** The address that a client in the cluster would use. */
  readonly urlOf: (service: string) => Promise<string>;
  readonly replicasOf: (service: string) => readonly InferenceReplica[];
  /** All wanted replicas serve. */
  readonly untilServing: (service: string, count: number) => Promise<void>;
}

/** Controller, `count` agents and kube-proxy run, every Host and the Model are ready. */
export async function openFleet(count: number): Promise<BenchFleet> {
  const plane = await openPlane();
  return disposedOnFailure(plane, async () => {
    const { kubeconfig } = plane.controlPlane;
    const network = await startNodeNetwork({ kubeconfig, kubectl: kubectlFor(kubeconfig) });
    plane.atEnd(async () => network[Symbol.asyncDispose]());
    const agents = Array.from({ length: count }, (_, index) => ({ hostName: `mac-${index + 1}` }));
    const bed = await addFleet(plane, { address: network.hostAddress, agents });
    return { ...bed, network, upgrade: upgrades(plane), ...looksAt(plane) };
  });
}

function upgrades(plane: Plane): BenchFleet["upgrade"] {
  const here = path.join(plane.dir, "release");
  const versions = [{ program: programIn(here) }, installRelease(`${here}-2`, "0.1.0-bench.2")] as const;
  const upgraded = new Set<TestAgent>();
  return async (agent) => {
    await agent.part().kill("SIGTERM");
    const starts = startsIn(agent.part());
    const isBack = upgraded.delete(agent);
    if (!isBack) upgraded.add(agent);
    const { program } = versions[isBack ? 0 : 1];
    await untilStarted(agent.restart({ program }), starts);
  };
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

/** Questions about the services of the one Model. */
export function looksAt({ client, replicas, slices, changed }: Plane) {
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
          return slice !== undefined && isSliceReady(slice);
        });
        return serving.length === count || undefined;
      });
    },
  };
}
