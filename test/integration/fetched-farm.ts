/** A farm of one host whose model comes from a server, so that its size is known before anything is placed. */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { type NodeNetwork, startNodeNetwork } from "../cluster/node-network.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { type Farm, startFarm } from "../system/farm.ts";
import { startBadOrigin } from "./bad-origin.ts";
import { servicesOf } from "./services.ts";

export interface FetchedFarm extends AsyncDisposable {
  readonly cluster: PrivateCluster;
  readonly network: NodeNetwork;
  readonly farm: Farm;
  readonly services: ReturnType<typeof servicesOf>;
  /** Source of a model whose answers never end by themselves. */
  readonly source: string;
  readonly apply: (...objects: object[]) => Promise<void>;
}

export async function startFetchedFarm(): Promise<FetchedFarm> {
  const stack = new AsyncDisposableStack();
  try {
    const cluster = stack.use(await startCluster({ controllerManager: true }));
    const network = stack.use(await startNodeNetwork(cluster));
    const file = path.join(cluster.dir, "endless.gguf");
    await writeTinyGguf(file, { endless: true, layers: 8, embeddingSize: 256, contextLength: 8192 });
    const origin = stack.use(await startBadOrigin(readFileSync(file), 0));
    const config = path.join(cluster.dir, "agent.yaml");
    writeFileSync(config, JSON.stringify({ disk: { reserve: 0 }, sources: { allowLoopback: true } }));
    const farm = stack.use(
      await startFarm({
        kubeconfig: cluster.kubeconfig,
        address: network.hostAddress,
        agentArgs: ["--config", config],
        controllerArgs: ["--allow-loopback"],
      }),
    );
    const kept = stack.move();
    return {
      ...{ cluster, network, farm },
      services: servicesOf(farm, network),
      source: `${origin.url}/good.gguf`,
      apply: async (...items) => {
        const list = { apiVersion: "v1", kind: "List", items };
        await farm.kubectl(["apply", "-f", "-"], { input: JSON.stringify(list) });
      },
      [Symbol.asyncDispose]: () => kept.disposeAsync(),
    };
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}
