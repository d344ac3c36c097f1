/** `--dry-run`: reads once, prints what would be done, changes nothing. */
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import { type ConnectOptions, connect, type KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { explainFailure } from "../src/kube/errors.ts";
import type { ReplicaRunner } from "./replicas/ports.ts";

/** Throws MetalbridgeError where the cluster cannot be read. */
export async function dryRun(
  options: ConnectOptions & { readonly hostName: string },
  {
    runner,
    look,
  }: { readonly runner: ReplicaRunner; readonly look: (connection: KubeConnection) => Promise<void> },
  print: (text: string) => void,
): Promise<void> {
  const connection = await connect(options);
  try {
    const listed = await createClient(connection).list<InferenceReplica>(INFERENCE_REPLICAS, {
      fieldSelector: `spec.template.hostName=${options.hostName}`,
    });
    if (!listed.ok) throw explainFailure(listed.error);
    await look(connection);
    await runner.adopt();
    runner.listed(listed.value.items);
    const plans = await runner.describePlans();
    print(plans === "" ? `nothing to do: no replica names ${options.hostName}` : plans);
  } finally {
    connection.close();
  }
}
