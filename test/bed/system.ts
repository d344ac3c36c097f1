/** The whole system for one file of tests: control plane, a node's network with kube-proxy, controller and agents, each as users have it. */
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { WITH_SLICES } from "../cluster/planes.ts";
import { type NodeNetwork, startNodeNetwork } from "./node-network.ts";
import { type Services, servicesOf } from "./services.ts";
import { startFleet, type TestFleet, type TestFleetOptions } from "./test-fleet.ts";

export interface System extends AsyncDisposable {
  readonly cluster: PrivateCluster;
  readonly network: NodeNetwork;
  readonly farm: TestFleet;
  readonly services: Services;
  readonly apply: (...objects: readonly object[]) => Promise<void>;
}

/** All parts run; what they need a while for is not waited for. Disposal ends them, and the engines that they leave. */
export async function startSystem(
  options: Omit<TestFleetOptions, "kubeconfig" | "address"> = {},
): Promise<System> {
  await using stack = new AsyncDisposableStack();
  const cluster = stack.use(await startCluster({ controllerManager: WITH_SLICES }));
  const network = stack.use(await startNodeNetwork(cluster));
  const { kubeconfig } = cluster;
  const farm = stack.use(await startFleet({ ...options, kubeconfig, address: network.hostAddress }));
  const kept = stack.move();
  return {
    cluster,
    network,
    farm,
    services: servicesOf(farm, network),
    apply: farm.objects.apply,
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}
