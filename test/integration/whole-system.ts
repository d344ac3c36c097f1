/** The whole system for one file of tests: control plane, a node's network with kube-proxy, controller and agents, each as users have it. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { type NodeNetwork, startNodeNetwork } from "../cluster/node-network.ts";
import { type Farm, type FarmOptions, startFarm } from "../system/farm.ts";
import { type FurtherAgent, type FurtherAgentOptions, startFurtherAgent } from "../system/further-agent.ts";
import { type Services, servicesOf } from "./services.ts";

export interface SystemOptions
  extends Pick<FarmOptions, "hostName" | "agentArgs" | "controllerArgs" | "program"> {
  /** The first agent's configuration file. */
  readonly config?: object;
  readonly furtherAgents?: readonly Omit<FurtherAgentOptions, "address">[];
}

export interface System extends AsyncDisposable {
  readonly cluster: PrivateCluster;
  readonly network: NodeNetwork;
  readonly farm: Farm;
  readonly services: Services;
  readonly furtherAgents: readonly FurtherAgent[];
  readonly apply: (...objects: readonly object[]) => Promise<void>;
}

/** All parts run; what they need a while for is not waited for. Disposal ends them, and the engines that they leave. */
export async function startSystem(options: SystemOptions = {}): Promise<System> {
  const { config, furtherAgents = [], agentArgs = [], ...farmOptions } = options;
  await using stack = new AsyncDisposableStack();
  const cluster = stack.use(await startCluster({ controllerManager: true }));
  const network = stack.use(await startNodeNetwork(cluster));
  const shared = { kubeconfig: cluster.kubeconfig, address: network.hostAddress };
  const settings = path.join(cluster.dir, "agent.yaml");
  writeFileSync(settings, JSON.stringify(config ?? {}));
  const farm = stack.use(
    await startFarm({ ...shared, ...farmOptions, agentArgs: ["--config", settings, ...agentArgs] }),
  );
  mkdirSync(farm.modelsDir, { recursive: true });
  const others = furtherAgents.map((other) =>
    stack.use(startFurtherAgent(farm, { ...other, address: shared.address })),
  );
  const kept = stack.move();
  return {
    ...{ cluster, network, farm, furtherAgents: others },
    services: servicesOf(farm, network),
    apply: async (...items) => {
      const list = { apiVersion: "v1", kind: "List", items };
      await farm.kubectl(["apply", "-f", "-"], { input: JSON.stringify(list) });
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}
