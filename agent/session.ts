/** The agent's session with the cluster: Lease and Host, then replicas and slices, while it holds the host name. */

import { AGENT_REPORTER } from "../src/api/group.ts";
import type { Host } from "../src/api/host.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { createEventRecorder } from "../src/kube/events.ts";
import { createCatchUp } from "../src/kube/watch/catch-up.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import { createEndpoints } from "./endpoints/endpoints.ts";
import { createHostClient } from "./registration/host-client.ts";
import type { ObservedHost } from "./registration/host-status.ts";
import { createRegistration, type HostProblem } from "./registration/registration.ts";
import { createReplicaWatch } from "./replica-watch.ts";
import type { ReplicaRunner } from "./replicas/ports.ts";
import type { ModelKeeper } from "./store-maintenance/keep-models.ts";

export interface SessionOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Aborted last: withdrawals continue until then. */
  readonly endSignal: AbortSignal;
  readonly hostName: string;
  readonly instanceId: string;
  readonly create: (() => readonly string[]) | undefined;
  readonly runner: ReplicaRunner;
  readonly models: Pick<ModelKeeper, "connect">;
  readonly observe: () => Promise<ObservedHost>;
  readonly onHost: (host: Host | undefined) => void;
  /** This machine's name in messages. */
  readonly machine: () => string;
}

export interface ClusterSession {
  readonly isNameOurs: () => boolean;
  readonly isSynced: () => boolean;
  readonly watchAgeMs: () => number | undefined;
  readonly troubles: () => readonly HostProblem[];
  /** Writes the Host's status soon if it changed. */
  readonly report: () => void;
  /** After a sleep: cached state may be long out of date, and connections may be dead. */
  readonly wake: () => void;
}

export const USER_AGENT = "metalbridge-agent";

export function startSession(options: SessionOptions): ClusterSession {
  const { connection, clock, log, signal, endSignal, hostName, runner, models } = options;
  const client = createClient(connection, { userAgent: USER_AGENT });
  const reporter = { reportingController: AGENT_REPORTER, reportingInstance: hostName };
  const registration = createRegistration({
    ...options,
    client,
    // The agent that does not hold the name is the one with something to report.
    record: createEventRecorder({ client, clock, log, signal: endSignal, ...reporter }),
  });
  const hostClient = createHostClient(client, registration.isNameOurs);
  const record = createEventRecorder({ client: hostClient, clock, log, signal, ...reporter });
  const endpoints = createEndpoints({
    ...{ connection, client, clock, log, signal: endSignal, hostName },
    mayWrite: registration.isNameOurs,
    onChange: (key) => runner.sliceChanged(key),
  });
  const replicas = createReplicaWatch({ ...options, onSynced: registration.report });
  runner.connect({ client: hostClient, recorder: record, endpoints });
  models.connect({ client: hostClient, record });
  const { answered } = createCatchUp({
    ...{ clock, signal, replaced: connection.replaced },
    reflectors: () =>
      [registration.hosts(), replicas.current(), endpoints.watch].filter((watch) => watch !== undefined),
  });
  // The Lease loop is the first to see the API server back; the watches must not wait out their backoff.
  registration.start({ onNameOurs: replicas.begin, onNameTaken: replicas.end, onAnswered: answered });
  return {
    isNameOurs: registration.isNameOurs,
    report: registration.report,
    wake: () => {
      connection.dropIdle();
      endpoints.retryNow();
      registration.wake();
      replicas.current()?.relist();
      endpoints.watch.relist();
    },
    isSynced: replicas.isSynced,
    watchAgeMs: replicas.ageMs,
    troubles: () => [...registration.troubles(), ...replicas.troubles()],
  };
}
