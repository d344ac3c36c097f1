/** Several hosts on one machine, each with its own agent, behind the real kube-proxy of a node's network. */
import path from "node:path";
import type { TestAgent } from "../../../test/bed/agent.ts";
import { type NodeNetwork, startNodeNetwork } from "../../../test/bed/node-network.ts";
import type { Part } from "../../../test/bed/part.ts";
import { installRelease } from "../../../test/bed/release.ts";
import { until } from "../../../test/bed/until.ts";
import { addFleet, type Bed, openOn } from "./bed.ts";
import type { Plane } from "./plane.ts";

export interface BenchFleet extends Bed {
  readonly network: NodeNetwork;
  /** Stops the agent with TERM, as an upgrade does, and starts the other version over its state; resolves once that has adopted what runs. */
  readonly upgrade: (agent: TestAgent) => Promise<void>;
}

/** Controller, `count` agents and kube-proxy run, every Host and the Model are ready. */
export async function openFleet(count: number): Promise<BenchFleet> {
  return openOn({}, async (plane) => {
    const { kubeconfig } = plane.controlPlane;
    const network = plane.use(await startNodeNetwork({ kubeconfig }));
    const agents = Array.from({ length: count }, (_, index) => ({ hostName: `mac-${index + 1}` }));
    const bed = await addFleet(plane, { address: network.hostAddress, agents });
    return { ...bed, network, upgrade: upgrades(plane) };
  });
}

function upgrades({ dir, program }: Plane): BenchFleet["upgrade"] {
  const newer = installRelease(path.join(dir, "release-2"), "0.1.0-bench.2");
  const upgraded = new Set<TestAgent>();
  return async (agent) => {
    await agent.part().kill("SIGTERM");
    const starts = startsIn(agent.part());
    const isUpgraded = upgraded.delete(agent);
    if (!isUpgraded) upgraded.add(agent);
    const next = agent.restart({ program: isUpgraded ? program : newer.program });
    await until(
      () => {
        if (startsIn(next) > starts) return;
        throw new Error(`the agent did not start:\n${next.log().slice(-2_000)}`);
      },
      { everyMs: 20 },
    );
  };
}

/** The agent logs this line once everything that runs is adopted. */
function startsIn(agent: Part): number {
  return agent.log().split('"msg":"agent started"').length - 1;
}
