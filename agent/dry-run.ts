/** `--dry-run`: reads once, prints what would be done, changes nothing. */
import { readdir } from "node:fs/promises";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import { MetalbridgeError } from "../src/errors.ts";
import { type ConnectOptions, connect, type KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { explainFailure } from "../src/kube/errors.ts";
import type { ReplicaRunner } from "./replicas/ports.ts";
import { systemCode } from "./store/atomic.ts";

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

/** It need not be there. Throws StateDirUnusable where it cannot be read, for example as another user's. */
export async function requireReadable(stateDir: string): Promise<void> {
  try {
    await readdir(stateDir);
  } catch (cause) {
    if (systemCode(cause) === "ENOENT") return;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new MetalbridgeError("StateDirUnusable", `${stateDir} cannot be read: ${why}`, undefined, {
      cause,
    });
  }
}
