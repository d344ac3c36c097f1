/** The usual frame of a runner's test: a namespace and a bench of its own on the shared API server. */
import { sharedCluster } from "../cluster/cluster.ts";
import { type Bench, createBench } from "./bench.ts";

/** A test body that gets a bench and leaves nothing behind. */
export function withBench(run: (bench: Bench) => Promise<void>): () => Promise<void> {
  return async () => {
    const cluster = sharedCluster();
    await using namespace = await cluster.namespace();
    await using bench = await createBench(cluster.kubeconfig, namespace.name);
    await run(bench);
  };
}
