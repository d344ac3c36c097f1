/** A private cluster with simulated Linux nodes: pods are created, scheduled, preempted and become ready there. */
import path from "node:path";
import { type SimulatedNode, type SimulatedNodes, startKwok } from "../bed/kwok.ts";
import { one, type PrivateCluster, type PrivateClusterOptions, startCluster } from "./cluster.ts";
import { WITH_PODS } from "./planes.ts";

export interface LinuxCluster extends PrivateCluster {
  readonly nodes: SimulatedNodes;
}

/** Resolves when pods can be bound to the nodes. */
export async function startLinuxCluster(
  nodes: readonly SimulatedNode[],
  options: PrivateClusterOptions = {},
): Promise<LinuxCluster> {
  await using stack = new AsyncDisposableStack();
  const cluster = stack.use(
    await startCluster({ controllerManager: WITH_PODS, scheduler: true, ...options }),
  );
  const simulated = stack.use(await startKwok({ ...cluster, dir: path.join(cluster.dir, "kwok") }));
  await simulated.add(...nodes);
  const kept = stack.move();
  return { ...cluster, nodes: simulated, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** One for all tests of a file or `describe`, as `oneCluster` is. */
export function oneLinuxCluster(
  nodes: readonly SimulatedNode[],
  options?: PrivateClusterOptions,
): () => LinuxCluster {
  return one(() => startLinuxCluster(nodes, options));
}
