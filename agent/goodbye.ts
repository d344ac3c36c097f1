/** When engines end with the agent: the cluster hears it first, or it would send requests to nobody and show them Ready. */
import { API_VERSION, MANAGER_AGENT } from "../src/api/group.ts";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import type { KubeClient } from "../src/kube/types.ts";
import { waitMs } from "../src/kube/wait.ts";
import type { Clock, Log } from "../src/ports.ts";
import type { Endpoints } from "./replicas/ports.ts";

/** An API server that does not answer must not keep the agent. */
const MOST_MS = 3_000;

export async function sayGoodbye(
  replicas: readonly InferenceReplica[],
  { client, endpoints, clock, log }: { client: KubeClient; endpoints: Endpoints; clock: Clock; log: Log },
): Promise<void> {
  const over = new AbortController();
  const all = Promise.all(
    replicas.map(async (replica) => {
      const { name, namespace, uid } = replica.metadata;
      const withdrawn = await endpoints.withdraw({ name, namespace });
      if (!withdrawn.ok) log.warn({ name, namespace, why: withdrawn.message }, "endpoint not withdrawn");
      const status = {
        phase: "Stopped",
        reason: "AgentStopped",
        message: "the agent was told to end its engines with itself; start it again",
        observedGeneration: replica.metadata.generation ?? 0,
      } as const;
      const body = {
        apiVersion: API_VERSION,
        kind: "InferenceReplica",
        metadata: {
          name,
          ...(namespace === undefined ? {} : { namespace }),
          ...(uid === undefined ? {} : { uid }),
        },
        status,
      } as unknown as InferenceReplica;
      await client.apply(INFERENCE_REPLICAS, body, {
        manager: MANAGER_AGENT,
        subresource: "status",
        current: replica,
      });
    }),
  );
  await Promise.race([all, waitMs(clock, MOST_MS, over.signal)]).finally(() => over.abort());
}
