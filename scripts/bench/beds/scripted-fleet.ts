/** Hosts that a script writes, with replicas that are ready on them, and one real controller. */

import { silentLog } from "../../../local/terminal-log.ts";
import { isConditionTrue } from "../../../src/api/conditions.ts";
import { LABEL_HOST, NAMESPACE_HOSTS } from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { keyOf } from "../../../src/api/names.ts";
import { connect } from "../../../src/kube/client/connect.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import { keepLease } from "../../../src/kube/lease/lease.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import type { Part } from "../../../test/bed/part.ts";
import { registerHost, serveReplica } from "../../../test/bed/scripted-host.ts";
import { openOn } from "./bed.ts";
import { isSliceReady, log, type Plane, REQUEST_TIMEOUT_MS } from "./plane.ts";

export interface ScriptedFleetOptions {
  readonly hosts: number;
  readonly services: number;
  /** Number of replicas of each service. */
  readonly replicas: number;
  /** Fields for the spec of every service, merged with those that the bed sets. */
  readonly spec?: object;
}

export interface ScriptedFleet extends Plane {
  readonly fleet: readonly ScriptedHost[];
  /** The one that was started last. */
  readonly controller: () => Part;
  /** Starts one more. */
  readonly startController: () => Part;
  /** All services' replicas are ready on reachable hosts. */
  readonly untilAllServing: (count: number) => Promise<void>;
}

export interface ScriptedHost {
  readonly name: string;
  /** How often it has renewed its Lease. */
  readonly renewals: () => number;
  /** Stops renewing its Lease, and serves nothing new. */
  readonly lose: () => void;
  readonly isLost: () => boolean;
  /** As an agent whose engine has become ready; false where a later event has to try again. */
  readonly serve: (replica: InferenceReplica) => Promise<boolean>;
}

const HOSTS_PER_CONNECTION = 25;
/** Requests at a time while the fleet is made. */
const AT_ONCE = 16;
const LIMIT_MS = 900_000;

/** Every replica is ready, and every host reachable. */
export async function openScriptedFleet(options: ScriptedFleetOptions): Promise<ScriptedFleet> {
  // The disk of this machine, which others use as well, would set the pace of everything.
  return openOn({ fsync: false }, (plane) => fill(plane, options));
}

async function fill(
  plane: Plane,
  { hosts, services, replicas, spec }: ScriptedFleetOptions,
): Promise<ScriptedFleet> {
  const startController = () => {
    controller = plane.start("controller", "--health-port", "0");
    return controller;
  };
  let controller = plane.start("controller", "--health-port", "0");
  const ending = new AbortController();
  plane.atEnd(async () => ending.abort());
  const fleet = new Map<string, ScriptedHost>();
  const clients = await openClients(plane, Math.ceil(hosts / HOSTS_PER_CONNECTION));
  await inParallel(hosts, async (index) => {
    const client = clients[index % clients.length] ?? plane.client;
    const host = await startScriptedHost(client, index, ending.signal);
    fleet.set(host.name, host);
  });
  await plane.changed.until(
    `${hosts} reachable hosts`,
    () => reachable(plane) === hosts || undefined,
    LIMIT_MS,
  );
  const served = serveReplicas(plane, fleet, ending.signal);
  // Each wait for replicas gets the failure; after the end of the fleet it means nothing.
  served.catch(() => {});
  const untilAllServing = async (count: number) => {
    const isServing = () => {
      const all = plane.replicas.list();
      const areReady = () => all.every(({ status }) => isConditionTrue(status?.conditions, "HostReachable"));
      return (all.length === count && servingSlices(plane).length === count && areReady()) || undefined;
    };
    await Promise.race([served, plane.changed.until(`${count} ready replicas`, isServing, LIMIT_MS)]);
  };
  await plane.createModel(plane.dir);
  await inParallel(services, async (index) => {
    await plane.createService(`bench-${index}`, { replicas, ...spec });
  });
  await untilAllServing(services * replicas);
  return {
    ...plane,
    fleet: [...fleet.values()],
    controller: () => controller,
    startController,
    untilAllServing,
  };
}

/** Creates the Host, ready, and keeps its Lease until `signal` is aborted. */
async function startScriptedHost(
  client: KubeClient,
  index: number,
  signal: AbortSignal,
): Promise<ScriptedHost> {
  const name = `mac-${index}`;
  const address = `198.18.${index >> 8}.${index & 255}`;
  await registerHost(client, name, { address });
  let renewals = 0;
  const losing = new AbortController();
  keepLease({
    client,
    clock: systemClock,
    log: silentLog,
    signal: AbortSignal.any([signal, losing.signal]),
    name,
    namespace: NAMESPACE_HOSTS,
    holder: `${name}_00000000-0000-4000-8000-${String(index).padStart(12, "0")}`,
    onRenewed: () => {
      renewals += 1;
    },
  });
  return {
    name,
    serve: (replica) => serveReplica(client, replica, address),
    renewals: () => renewals,
    lose: () => losing.abort(),
    isLost: () => losing.signal.aborted,
  };
}

/** A connection has a few sockets only: agents have one each. */
async function openClients(plane: Plane, count: number): Promise<readonly KubeClient[]> {
  const opened = Array.from({ length: count }, () =>
    connect({ kubeconfigPath: plane.controlPlane.kubeconfig }),
  );
  const connections = await Promise.all(opened);
  plane.atEnd(async () => {
    for (const connection of connections) connection.close();
  });
  return connections.map((connection) => createClient(connection, { timeoutMs: REQUEST_TIMEOUT_MS }));
}

/** Some at a time. */
export async function inParallel(count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** As agents would: each new replica of a host that renews its Lease becomes ready; what fails is done again with the next change. */
async function serveReplicas(
  plane: Plane,
  fleet: ReadonlyMap<string, ScriptedHost>,
  signal: AbortSignal,
): Promise<void> {
  const served = new Set<string>();
  while (!signal.aborted) {
    const ready = plane.replicas.list().flatMap((replica) => {
      const { metadata, spec } = replica;
      const { uid } = metadata;
      const host = fleet.get(spec.template.hostName);
      if (uid === undefined || served.has(uid) || metadata.deletionTimestamp !== undefined) return [];
      if (host === undefined || host.isLost() || plane.slices.get(keyOf(metadata)) === undefined) return [];
      const failed = (error: unknown) => log.warn({ err: error }, "a replica is not ready yet");
      return [() => host.serve(replica).then((isServed) => isServed && served.add(uid), failed)];
    });
    if (ready.length === 0) await nextChange(plane, signal);
    await inParallel(ready.length, async (index) => void (await ready[index]?.()));
  }
}

function nextChange(plane: Plane, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      forget();
      signal.removeEventListener("abort", done);
      resolve();
    };
    const forget = plane.changed.listen(done);
    signal.addEventListener("abort", done, { once: true });
  });
}

function reachable(plane: Plane): number {
  return plane.hosts.list().filter(({ status }) => isConditionTrue(status?.conditions, "Reachable")).length;
}

/** Slices that stopped serving at any moment from now until the result is asked for; only those of hosts that count. */
export function countWithdrawn(plane: Plane, counts: (host: string) => boolean = () => true): () => number {
  const before = new Set(
    servingSlices(plane)
      .filter(isCounted)
      .map(({ metadata }) => keyOf(metadata)),
  );
  const withdrawn = new Set<string>();
  const forget = plane.changed.listen((key = "") => {
    if (!before.has(key)) return;
    if (!isSliceReady(plane.slices.get(key))) withdrawn.add(key);
  });
  return () => {
    forget();
    return withdrawn.size;
  };
  function isCounted({ metadata }: EndpointSlice): boolean {
    return counts(metadata.labels?.[LABEL_HOST] ?? "");
  }
}

/** The endpoint-slice controller keeps an empty one of its own beside them. */
function servingSlices(plane: Plane): readonly EndpointSlice[] {
  return plane.slices
    .list()
    .filter((slice) => slice.metadata.labels?.[LABEL_HOST] !== undefined && isSliceReady(slice));
}
