/** Feeds the replica runner from the watch of this host's replicas, for as long as the host name is ours. */

import type { MetalbridgeError } from "../src/api/errors.ts";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { explainFailure } from "../src/kube/errors.ts";
import type { Reflector } from "../src/kube/types.ts";
import { startReflector } from "../src/kube/watch/reflector.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import type { ReplicaRunner } from "./replicas/ports.ts";

export interface ReplicaWatchOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly hostName: string;
  readonly runner: Pick<ReplicaRunner, "setDesired" | "listed">;
  readonly onSynced: () => void;
  readonly onTrouble: (error: MetalbridgeError) => void;
}

export function watchReplicas(options: ReplicaWatchOptions): Reflector<InferenceReplica> {
  const { connection, clock, log, signal, hostName, runner } = options;
  const reflector = startReflector<InferenceReplica>({
    connection,
    clock,
    log,
    signal,
    kind: INFERENCE_REPLICAS,
    fieldSelector: `spec.template.hostName=${hostName}`,
    onChange: (_, replica, before) => {
      const [uid, uidBefore] = [replica?.metadata.uid, before?.metadata.uid];
      // A new object of the same name is another replica; the old one's engine must go.
      if (uidBefore !== undefined && uidBefore !== uid) runner.setDesired(uidBefore, undefined);
      if (replica !== undefined && uid !== undefined) runner.setDesired(uid, replica);
    },
    onListed: () => runner.listed(reflector.list()),
    onSynced: options.onSynced,
    onTrouble: (failure) => options.onTrouble(explainFailure(failure)),
  });
  return reflector;
}
