/** Runs Envoy for the gateway: its files, its process, its access log, its requests in flight. */
import { rename } from "node:fs/promises";
import { ifExists } from "../../../src/util/atomic-file.ts";
import { hostInUrl } from "../../../src/util/host-in-url.ts";
import { type EnvoyClusterOptions, renderCluster, renderDecideCluster } from "../render/clusters.ts";
import { renderListeners } from "../render/listener.ts";
import { renderSecret, renderTrust } from "../render/typed.ts";
import type { Envoy, EnvoyLimits, EnvoyOptions, EnvoyStopOptions, ListenAddress } from "../types.ts";
import type { EnvoyAdmin } from "./admin.ts";
import { createHeldPort, requireFree } from "./held-port.ts";
import { type EnvoyPaths, envoyPaths } from "./paths.ts";
import type { EnvoyProcesses } from "./processes.ts";
import { pause, runEnvoy } from "./run-envoy.ts";
import type { XdsFiles } from "./xds-files.ts";

export const ENVOY_DEFAULTS = {
  maxBodyBytes: 32 << 20,
  requestReceiveMs: 300_000,
  firstBytesMs: 10_000,
  idleMs: 3_600_000,
  decideMs: 600_000,
  maxClientConnections: 20_000,
  crowdedHeapBytes: 160 << 20,
} as const satisfies Required<EnvoyLimits>;

const READY_CHECK_MS = 20;
const DRAIN_MS = 30_000;

/**
 * Resolves when the files are written and Envoy is starting; `listening` follows. Throws PortTaken or another error of the
 * address, unless an earlier Envoy of this folder has it, and the system error of a file that cannot be written.
 */
export async function openEnvoy(options: EnvoyOptions): Promise<Envoy> {
  const { decideSocket, log } = options;
  const paths = envoyPaths(options.dir);
  const limits = { ...ENVOY_DEFAULTS, ...options.limits };
  const secretFile = options.tls === undefined ? undefined : paths.secret;
  const listenersAt = (listen: ListenAddress) =>
    renderListeners({
      ...limits,
      listen,
      cors: options.cors,
      accessLogFile: paths.accessLog,
      heldSocket: paths.held,
      secretFile,
    });
  const port = createHeldPort({ ...options, passTo: paths.held, isPlain: options.tls === undefined });
  const clusterOptions: EnvoyClusterOptions = {
    balancer: "decision",
    bufferBytes: limits.maxBodyBytes,
    upstreamTls: upstreamFiles(paths, options),
    transportFile: paths.transportSecret,
    platform: process.platform,
  };
  const run = await runEnvoy({
    ...options,
    limits,
    prepare: async (files) => {
      await putSecrets(files, paths, options);
      await files.put(paths.listeners, listenersAt(options.listen));
    },
    renderCluster: (cluster) => renderCluster(cluster, clusterOptions),
    ownClusters: [renderDecideCluster(decideSocket)],
    port: { ...port, hold: () => port.hold(options.listen) },
    beforeFirst: () => requireFree(options.listen),
  });
  const { admin, processes, put } = run;
  return {
    apply: (clusters) => run.apply({ clusters }),
    present: run.present,
    listening: waitForListener(options, admin, options.listen),
    listenAt: async (listen) => {
      await port.hold(listen);
      const isChanged = await put(paths.listeners, listenersAt(listen));
      if (isChanged === true) await waitForListener(options, admin, listen);
    },
    isRunning: () => processes?.isRunning() ?? true,
    restoreFiles: () => processes?.restoreFiles(),
    accessLog: {
      file: paths.accessLog,
      rotate: () => rotateAccessLog(paths.accessLog, admin, processes, log),
    },
    activeRequests: () => activeRequests(admin, processes),
    metrics: () => admin.get("/stats/prometheus?usedonly"),
    stop: ({ drainMs = DRAIN_MS }: EnvoyStopOptions = {}) => run.stop({ drainMs, keptMs: 0 }),
  };
}

async function rotateAccessLog(
  file: string,
  admin: EnvoyAdmin,
  processes: EnvoyProcesses | undefined,
  log: EnvoyOptions["log"],
): Promise<void> {
  if (processes?.hasPredecessor() === true) return;
  // A gateway that was killed between both steps has renamed it already.
  await ifExists(rename(file, `${file}.1`));
  if (!(await admin.post("/reopen_logs")))
    log.warn({}, "envoy does not answer; its access log is not reopened");
}

function upstreamFiles(paths: EnvoyPaths, { upstreamTls }: EnvoyOptions): EnvoyClusterOptions["upstreamTls"] {
  if (upstreamTls === undefined) return undefined;
  return { trustFile: paths.upstreamTrust, clientFile: upstreamTls.client && paths.upstreamSecret };
}

async function putSecrets(
  files: XdsFiles,
  paths: EnvoyPaths,
  { tls, upstreamTls }: EnvoyOptions,
): Promise<void> {
  if (tls !== undefined) await files.put(paths.secret, renderSecret(tls));
  if (upstreamTls === undefined) return;
  await files.put(paths.upstreamTrust, renderTrust(upstreamTls.caFile));
  const { client } = upstreamTls;
  if (client !== undefined) await files.put(paths.upstreamSecret, renderSecret(client));
}

/** Until Envoy listens there, and connections of an earlier address are closed. */
async function waitForListener(
  { clock, signal }: EnvoyOptions,
  admin: EnvoyAdmin,
  { address, port }: ListenAddress,
): Promise<void> {
  const desired = `${hostInUrl(address)}:${port}`;
  while (!signal.aborted) {
    const listeners = await admin.get("/listeners");
    if (listeners?.includes(`::${desired}`)) {
      const draining = await admin.get("/stats?filter=^listener_manager.total_listeners_draining$");
      if (draining?.trim().endsWith(": 0")) return;
    }
    await pause(clock, READY_CHECK_MS);
  }
}

/** Requests at an endpoint, and those that wait for a connection. */
const ACTIVE_STATS = String.raw`^cluster\..+\.upstream_rq_(pending_)?active$`;
const LINE = /^cluster\.(.+)\.upstream_rq_(?:pending_)?active: (\d+)$/gm;

async function activeRequests(
  admin: EnvoyAdmin,
  processes: EnvoyProcesses | undefined,
): ReturnType<Envoy["activeRequests"]> {
  if (processes?.hasPredecessor() === true) return undefined;
  const stats = await admin.get(`/stats?usedonly&filter=${encodeURIComponent(ACTIVE_STATS)}`);
  return stats === undefined ? undefined : parseActiveRequests(stats);
}

/** The number of each cluster that has had a request. */
function parseActiveRequests(stats: string): ReadonlyMap<string, number> {
  const active = new Map<string, number>();
  for (const [, cluster = "", count] of stats.matchAll(LINE))
    active.set(cluster, (active.get(cluster) ?? 0) + Number(count));
  return active;
}
