/** Watches this host's replicas for the runner, while this agent holds the host name. */
import type { MetalbridgeError } from "../src/api/errors.ts";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { explainFailure } from "../src/kube/errors.ts";
import type { Reflector } from "../src/kube/types.ts";
import type { WatchedReflector } from "../src/kube/watch/catch-up.ts";
import { startReflector } from "../src/kube/watch/reflector.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import type { HostProblem } from "./registration/registration.ts";
import type { ReplicaRunner } from "./replicas/context/ports.ts";

export interface ReplicaWatchOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly hostName: string;
  readonly runner: Pick<ReplicaRunner, "setDesired" | "listed">;
  readonly onSynced: () => void;
}

export interface ReplicaWatch {
  readonly begin: () => void;
  readonly end: () => void;
  /** Undefined before the first `begin`. */
  readonly current: () => WatchedReflector | undefined;
  readonly isSynced: () => boolean;
  /** Time since the watch last received anything. */
  readonly ageMs: () => number | undefined;
  readonly problems: () => readonly HostProblem[];
}

export function createReplicaWatch(options: ReplicaWatchOptions): ReplicaWatch {
  const { clock, log, signal, onSynced } = options;
  let replicas: Reflector<InferenceReplica> | undefined;
  let watching: AbortController | undefined;
  let problem: MetalbridgeError | undefined;
  return {
    begin: () => {
      watching = new AbortController();
      replicas = watchReplicas(options, AbortSignal.any([signal, watching.signal]), {
        onSynced: () => {
          problem = undefined;
          onSynced();
        },
        onProblem: (error) => {
          if (problem?.code !== error.code) log.warn({ code: error.code }, error.message);
          problem = error;
        },
      });
    },
    end: () => {
      watching?.abort();
      watching = undefined;
    },
    current: () => replicas,
    isSynced: () => watching !== undefined && replicas?.isSynced() === true,
    ageMs: () => {
      const signMs = replicas?.lastActivityMs();
      return signMs === undefined ? undefined : clock.monotonicMs() - signMs;
    },
    problems: () =>
      replicas?.isSynced() === true || problem === undefined
        ? []
        : [{ code: problem.code, message: problem.message }],
  };
}

function watchReplicas(
  { connection, clock, log, hostName, runner }: ReplicaWatchOptions,
  signal: AbortSignal,
  on: { readonly onSynced: () => void; readonly onProblem: (error: MetalbridgeError) => void },
): Reflector<InferenceReplica> {
  const reflector = startReflector<InferenceReplica>({
    connection,
    clock,
    log,
    signal,
    kind: INFERENCE_REPLICAS,
    fieldSelector: `spec.template.hostName=${hostName}`,
    onChange: (_, replica, before) => {
      const [uid, uidBefore] = [replica?.metadata.uid, before?.metadata.uid];
      // A new object of the same name is a different replica; the old one's engine must stop.
      if (uidBefore !== undefined && uidBefore !== uid) runner.setDesired(uidBefore, undefined);
      if (replica !== undefined && uid !== undefined) runner.setDesired(uid, replica);
    },
    onListed: () => runner.listed(reflector.list()),
    onSynced: on.onSynced,
    onFailure: (failure) => on.onProblem(explainFailure(failure, { account: hostName })),
  });
  return reflector;
}
