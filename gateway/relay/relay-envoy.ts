/** Envoy as the relay uses it: a listener and a cluster per service, kept up to date while both change. */
import { type EnvoyClusterOptions, renderCluster } from "../envoy/render/clusters.ts";
import { CONNECTION_BUFFER_BYTES } from "../envoy/render/listener.ts";
import { renderRelayListeners } from "../envoy/render/relay-listeners.ts";
import { createAdmin } from "../envoy/run/admin.ts";
import { ENVOY_DEFAULTS } from "../envoy/run/envoy.ts";
import { envoyPaths } from "../envoy/run/paths.ts";
import {
  type EnvoyDrain,
  type EnvoyProcessOptions,
  type EnvoyRun,
  pause,
  runEnvoy,
} from "../envoy/run/run-envoy.ts";
import type { EnvoyKeyPair } from "../envoy/types.ts";
import type { RelayedServices } from "./services.ts";

export interface RelayEnvoyOptions
  extends Pick<
    EnvoyProcessOptions,
    "dir" | "envoy" | "concurrency" | "supervisor" | "clock" | "log" | "signal"
  > {
  readonly services: RelayedServices;
  /** Address on which each service has its port. */
  readonly address: string;
  /** Certificate for hosts. */
  readonly keyPair: EnvoyKeyPair;
}

export interface RelayEnvoy {
  /** Must be called when services have changed. Calls in the same turn of the event loop are merged. */
  readonly update: () => void;
  readonly present: (keyPair: EnvoyKeyPair) => Promise<void>;
  /** True while Envoy listens, and is not stopping. */
  readonly isReady: () => boolean;
  readonly admin: EnvoyRun["admin"];
  readonly stop: (drain?: EnvoyDrain) => Promise<void>;
}

const READY_CHECK_MS = 50;
const DRAIN: EnvoyDrain = { drainMs: 30_000, keptMs: 10_000 };

/** Resolves once Envoy is starting. */
export async function openRelayEnvoy(options: RelayEnvoyOptions): Promise<RelayEnvoy> {
  const { services, address, dir, clock, log, signal } = options;
  const paths = envoyPaths(dir);
  const clusterOptions: EnvoyClusterOptions = {
    balancer: "leastRequests",
    bufferBytes: CONNECTION_BUFFER_BYTES,
    transportFile: paths.transportSecret,
    platform: process.platform,
  };
  let known: ReadonlyMap<string, string> = new Map();
  const state = () => {
    const { ports, problems } = services.ports();
    for (const [slice, problem] of problems)
      if (known.get(slice) !== problem) log.warn({ slice, problem }, "the relay does not serve the slice");
    known = problems;
    return { clusters: services.clusters(ports), listeners: renderRelayListeners({ address, ports }) };
  };
  const admin = createAdmin(paths.admin);
  let [isLive, isLeaving, isDue] = [false, false, false];
  const untilLive = async (): Promise<void> => {
    isLive = false;
    // 200 once Envoy has its clusters with their endpoints, and listens.
    while (!signal.aborted && (await admin.get("/ready")) === undefined) await pause(clock, READY_CHECK_MS);
    isLive = !signal.aborted;
  };
  const { clusters, listeners } = state();
  const run = await runEnvoy({
    ...options,
    clusters,
    limits: ENVOY_DEFAULTS,
    prepare: async (files) => void (await files.put(paths.listeners, listeners)),
    renderCluster: (cluster) => renderCluster(cluster, clusterOptions),
    ownClusters: [],
    onDrain: () => {
      isLeaving = true;
    },
    onExited: () => void untilLive(),
  });
  void untilLive();
  const update = (): void => {
    if (isDue) return;
    isDue = true;
    setImmediate(() => {
      isDue = false;
      void run.apply(state());
    });
  };
  // Services may have changed meanwhile.
  update();
  return {
    update,
    present: run.present,
    isReady: () => isLive && !isLeaving,
    admin,
    stop: (drain = DRAIN) => {
      isLeaving = true;
      return run.stop(drain);
    },
  };
}
