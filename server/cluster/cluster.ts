/** The watches of the cluster, one per kind: they keep the density state current, and the console and the extender follow them. */

import type { Density } from "../../fitness/density/density.ts";
import { notePod, noteReplica } from "../../fitness/density/held-memory.ts";
import { machineFromHost, machineFromNode } from "../../fitness/density/place.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { nodeOfReport } from "../../src/api/node-report.ts";
import { benchmarksIn } from "../../src/cluster/benchmarks.ts";
import {
  type ClusterChange,
  INFORMERS,
  type InformerName,
  type ObjectOf,
} from "../../src/cluster/informers.ts";
import { nodeReportOf } from "../../src/cluster/nodes.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import type { Lease } from "../../src/kube/objects.ts";
import type { ReviewOwnAccess } from "../../src/kube/review/self-reviews.ts";
import type { KubeObject, ListOptions, Reflector } from "../../src/kube/types.ts";
import { waitMs } from "../../src/kube/wait.ts";
import {
  type ReflectorOptions,
  startReflector,
  UNWATCHED,
  withoutManagers,
} from "../../src/kube/watch/reflector.ts";
import { backoffMs } from "../../src/util/backoff.ts";
import { momentOf } from "../../src/util/moment.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { Reach } from "./reach.ts";

export interface ClusterOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly reach?: Pick<Reach, "answered" | "failed">;
  /** Also watches the ResourceSlices of nodes, if the cluster has the kind. */
  readonly withSlices?: boolean | undefined;
  /** Watches only what these rights allow; without it, everything. */
  readonly own?: OwnRights | undefined;
}

export type ClusterWatches = { readonly [K in InformerName]: Visible<ObjectOf<K>> };
type OnChange = (change: ClusterChange) => void;

export interface WatchedCluster {
  readonly watches: ClusterWatches;
  /** Calls the listener after each change, when the density state has it. */
  readonly listen: (listener: OnChange) => void;
  /** What is not listed yet, or may not be; undefined once everything is. */
  readonly waitingFor: () => string | undefined;
}

export function watchCluster(
  { reach, own, withSlices = false, ...options }: ClusterOptions,
  density: Density,
): WatchedCluster {
  const start = (name: InformerName): Visible<KubeObject> =>
    startVisible<KubeObject>(
      {
        ...options,
        ...INFORMERS[name],
        keep: withoutManagers,
        onResponse: reach?.answered,
        onFailure: reach?.failed,
        // Renewals between two lists were missed.
        onListed: () => name === "leases" && density.restartLeaseTimeouts(options.clock.monotonicMs()),
        onChange: (key, after, before) => {
          for (const listener of listeners) listener({ name, key, after, before } as ClusterChange);
        },
      },
      own,
    );
  const names = Object.keys(INFORMERS) as InformerName[];
  const required = names.filter((name) => !("isOptional" in INFORMERS[name]));
  const watches = Object.fromEntries(
    names.map((name) => [name, name === "slices" && !withSlices ? NONE : start(name)]),
  ) as unknown as ClusterWatches;
  const listeners = [createDensityFeed(density, watches, options.clock)];
  return {
    watches,
    listen: (listener) => void listeners.push(listener),
    waitingFor: () => {
      const hidden = required.filter((name) => !watches[name].covers());
      if (hidden.length > 0) return `the right to list ${hidden.join(", ")} of all namespaces`;
      const missing = required.filter((name) => !watches[name].isSynced());
      return missing.length === 0 ? undefined : `the first list of ${missing.join(", ")}`;
    },
  };
}

function createDensityFeed(density: Density, watches: ClusterWatches, clock: Clock): OnChange {
  const setNode = (name: string | undefined): void => {
    if (name === undefined) return;
    const node = watches.nodes.get(name);
    density.setPlace("Node", name, node && machineFromNode(node, nodeReportOf(name, watches.reports)));
  };
  return ({ name, key, after, before }) => {
    switch (name) {
      case "nodes":
        return setNode(key);
      case "reports":
        return setNode(nodeOfReport((after ?? before)?.metadata.name ?? ""));
      case "benchmarks":
        return density.setBenchmarks(benchmarksIn(watches.benchmarks));
      case "hosts":
        return density.setPlace("Host", key, after && machineFromHost(after));
      case "leases":
        return noteRenewal(density, after, clock);
      case "replicas":
        return noteReplica(density, key, after);
      case "pods":
        return notePod(density, key, after);
      case "services":
        return density.setService(key, after && mainModelOf(after.spec));
      case "models":
        return density.setModel(key, after?.spec.source);
      case "slices":
        return;
      default:
        return name satisfies never;
    }
  };
}

function noteRenewal(density: Density, lease: Lease | undefined, clock: Clock): void {
  // Without a holder no agent has renewed the Lease: the host is only registered.
  if ((lease?.spec?.holderIdentity ?? "") === "" || lease === undefined) return;
  const renewedAtMs = Date.parse(lease.spec?.renewTime ?? "");
  const at = Number.isNaN(renewedAtMs) ? undefined : renewedAtMs;
  density.leaseRenewed(lease.metadata.name, at, momentOf(clock));
}

interface Visible<T extends KubeObject>
  extends Pick<Reflector<T>, "get" | "list" | "isSynced" | "whenSynced"> {
  /**
   * False if the objects of the namespace, or without one those of the whole watch, may not be listed: it is unknown which there
   * are. True while the rights are not known yet.
   */
  readonly covers: (namespace?: string) => boolean;
}

const NONE = { ...UNWATCHED, covers: () => true };

/** The rights of the credentials, and the namespace that is watched without the right to all. */
interface OwnRights {
  readonly review: ReviewOwnAccess;
  readonly namespace: string;
}

const RETRY = { firstMs: 250, capMs: 30_000 };

/** Without `own`, the whole watch is started, whatever the rights. */
function startVisible<T extends KubeObject>(
  options: ReflectorOptions<T>,
  own: OwnRights | undefined,
): Visible<T> {
  if (own === undefined) return { ...startReflector(options), covers: () => true };
  let reflector: Reflector<T> | undefined;
  let covers = (_?: string): boolean => true;
  const started = selectionOf(options, own).then((selection) => {
    if (selection === undefined) covers = () => false;
    else if (selection.namespace !== options.namespace) covers = (one) => one === selection.namespace;
    if (selection !== undefined) reflector = startReflector({ ...options, ...selection });
  });
  return {
    get: (key) => reflector?.get(key),
    list: () => reflector?.list() ?? [],
    isSynced: () => reflector?.isSynced() ?? false,
    whenSynced: () => started.then(() => reflector?.whenSynced()),
    covers: (namespace) => covers(namespace),
  };
}

/** What may be listed; undefined for nothing. Asks until the API server answers, or `signal` is aborted. */
async function selectionOf<T extends KubeObject>(
  { connection, kind, namespace, clock, signal, onFailure }: ReflectorOptions<T>,
  own: OwnRights,
): Promise<Pick<ListOptions, "namespace"> | undefined> {
  const places = kind.namespaced && namespace === undefined ? [undefined, own.namespace] : [namespace];
  for (let failures = 1; ; failures += 1) {
    const access = { group: kind.group, resource: kind.plural };
    const ask = (verb: string, place?: string) =>
      own.review(connection, "own", { ...access, verb, namespace: place });
    const verdicts = await Promise.all(
      places.map((place) => Promise.all(["list", "watch"].map((verb) => ask(verb, place)))),
    );
    const failed = verdicts.flat().find((verdict) => verdict.at === "failed");
    if (failed === undefined || signal.aborted) {
      const index = verdicts.findIndex((both) => both.every(({ at }) => at === "allowed"));
      return index < 0 ? undefined : { namespace: places[index] };
    }
    onFailure?.(failed.failure);
    await waitMs(clock, backoffMs(failures, RETRY), signal);
  }
}
