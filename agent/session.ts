/** The agent's session with the cluster: Lease and Host, then replicas and slices, while it holds the host name. */

import type { MetalbridgeError } from "../src/api/errors.ts";
import { AGENT_REPORTER } from "../src/api/group.ts";
import type { Host } from "../src/api/host.ts";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import type { Reporter } from "../src/kube/event/event-object.ts";
import { createEventRecorder, type RecordEvent } from "../src/kube/events.ts";
import type { KubeClient, Reflector } from "../src/kube/types.ts";
import { createCatchUp, type WatchedReflector } from "../src/kube/watch/catch-up.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import type { DeferredEndpoints } from "./endpoints/deferred-endpoints.ts";
import { createEndpoints } from "./endpoints/endpoints.ts";
import type { DeferredClient } from "./registration/deferred-client.ts";
import type { ObservedHost } from "./registration/host-status.ts";
import { type HostProblem, type HostRegistration, startRegistration } from "./registration/registration.ts";
import { watchReplicas } from "./replica-watch.ts";
import type { ReplicaRunner } from "./replicas/ports.ts";

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
  readonly lateClient: DeferredClient;
  readonly lateEndpoints: DeferredEndpoints;
  readonly runner: ReplicaRunner;
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
/** Whom the Events of this host name as their reporter. */
export function eventReporter(hostName: string): Reporter {
  return { reportingController: AGENT_REPORTER, reportingInstance: hostName };
}

export function startSession(options: SessionOptions): ClusterSession {
  const { connection, clock, log, signal, runner, lateClient, lateEndpoints } = options;
  const client = createClient(connection, { userAgent: USER_AGENT });
  lateClient.connect(client);
  let replicas: Reflector<InferenceReplica> | undefined;
  let watching: AbortController | undefined;
  let watchTrouble: MetalbridgeError | undefined;
  let registration: HostRegistration | undefined;

  const endpoints = createEndpoints({
    ...{ connection, client, clock, log, signal: options.endSignal },
    hostName: options.hostName,
    mayWrite: () => watching !== undefined,
    onChange: (key) => runner.sliceChanged(key),
  });
  lateEndpoints.connect(endpoints);

  const begin = (): void => {
    lateClient.setMayWrite(true);
    watching = new AbortController();
    replicas = watchReplicas({
      ...{ connection, clock, log, runner },
      hostName: options.hostName,
      signal: AbortSignal.any([signal, watching.signal]),
      onSynced: () => {
        watchTrouble = undefined;
        registration?.report();
      },
      onTrouble: (error) => {
        if (watchTrouble?.code !== error.code) log.warn({ code: error.code }, error.message);
        watchTrouble = error;
      },
    });
  };
  const end = (): void => {
    lateClient.setMayWrite(false);
    watching?.abort();
    watching = undefined;
  };
  const watches = (): (WatchedReflector | undefined)[] => [registration?.hosts(), replicas, endpoints.watch];
  registration = startRegistration({
    ...{ connection, client, clock, log, signal },
    ...options,
    client,
    record: recordHostEvents(options, client),
    onAnswered: answeredBy(options, watches),
    onNameOurs: begin,
    onNameTaken: end,
  });
  return {
    isNameOurs: registration.isNameOurs,
    report: registration.report,
    wake: () => {
      connection.dropIdle();
      endpoints.retryNow();
      registration?.wake();
      replicas?.relist();
      endpoints.watch.relist();
    },
    isSynced: () => watching !== undefined && replicas?.isSynced() === true,
    watchAgeMs: () => ageOf(replicas?.lastSignMs(), clock),
    troubles: () => [
      ...(registration?.troubles() ?? []),
      ...(replicas?.isSynced() === true || watchTrouble === undefined
        ? []
        : [{ code: watchTrouble.code, message: watchTrouble.message }]),
    ],
  };
}

/** Not by the late client: the agent that does not hold the name is the one with something to report. */
function recordHostEvents(
  { clock, log, endSignal, hostName }: SessionOptions,
  client: KubeClient,
): RecordEvent {
  return createEventRecorder({ client, clock, log, signal: endSignal, ...eventReporter(hostName) });
}

/** The Lease loop is the first to see the API server back; the watches must not wait out their backoff. */
function answeredBy(
  { clock, signal, connection }: SessionOptions,
  watches: () => (WatchedReflector | undefined)[],
) {
  const reflectors = () => watches().filter((watch) => watch !== undefined);
  return createCatchUp({ clock, signal, reflectors, replaced: connection.replaced }).answered;
}

function ageOf(sinceMs: number | undefined, clock: Clock): number | undefined {
  return sinceMs === undefined ? undefined : clock.monotonicMs() - sinceMs;
}
