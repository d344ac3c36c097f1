/** Runs Envoy for the gateway: its files, its process, its access log, its requests in flight. */
import { realpathSync, statSync } from "node:fs";
import { mkdir, rename, rm, watch, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ifExists } from "../../../src/util/atomic-file.ts";
import { sha256Hex } from "../../../src/util/hash.ts";
import { hostInUrl } from "../../../src/util/host-in-url.ts";
import { serveEndpoints } from "../grpc/server.ts";
import { renderBootstrap } from "../render/bootstrap.ts";
import { renderListeners } from "../render/listener.ts";
import { renderSecret, renderTrust } from "../render/typed.ts";
import type {
  Envoy,
  EnvoyCluster,
  EnvoyLimits,
  EnvoyOptions,
  EnvoyStopOptions,
  ListenAddress,
} from "../types.ts";
import { createAdmin, type EnvoyAdmin } from "./admin.ts";
import { createHeldPort, requireFree } from "./held-port.ts";
import { type EnvoyPaths, envoyPaths } from "./paths.ts";
import { createEnvoyProcesses, type EnvoyProcesses } from "./processes.ts";
import { createXdsFiles, makeXdsFolders, type XdsFiles, type XdsFilesOptions } from "./xds-files.ts";

const DEFAULTS = {
  maxBodyBytes: 32 << 20,
  requestReceiveMs: 300_000,
  firstBytesMs: 10_000,
  idleMs: 3_600_000,
  decideMs: 600_000,
  maxClientConnections: 20_000,
  crowdedHeapBytes: 160 << 20,
} as const satisfies Required<EnvoyLimits>;

const READY_CHECK_MS = 20;
const DRAIN_CHECK_MS = 50;
const DRAIN_MS = 30_000;
const WRITE_RETRY_MS = 1_000;
const WRITE_GAP_MS = 100;
/** A replaced Envoy finishes its requests for this long. */
const REPLACED_SECONDS = 900;
const DRAIN_SECONDS = 10;
const FINGERPRINT_LENGTH = 16;
/** Files by which the container of Envoy asks for the end of its requests before it stops. */
const DRAIN_WANTED = "drain";
const DRAIN_DONE = "drained";

/**
 * Resolves when the files are written and Envoy is starting; `listening` follows. Throws PortTaken or another error of the
 * address, unless an earlier Envoy of this folder has it, and the system error of a file that cannot be written.
 */
export async function openEnvoy(options: EnvoyOptions): Promise<Envoy> {
  const { dir, log, signal, onAccepted = ignore, onAnswered = ignore, onExited = ignore } = options;
  const paths = envoyPaths(dir);
  const { files, bootstrap, putListener } = await openFiles(options, paths);
  const port = createHeldPort({ ...options, passTo: paths.held, isPlain: options.tls === undefined });
  const processes =
    options.envoy === "external"
      ? undefined
      : processesOf(options, options.envoy, paths, { bootstrap, requirePort: port.requireFree });
  const isFound = processes !== undefined && (await processes.find()) > 0;
  if (!isFound) await files.putClusters(options.clusters);
  // The last one: the container of Envoy waits for it.
  await files.put(paths.bootstrap, bootstrap);

  const admin = createAdmin(paths.admin);
  const handlers = { onAccepted, onAnswered, onExited };
  const endpoints = await serveEndpoints({ socket: paths.endpoints, ...handlers, log, signal });
  endpoints.update(options.clusters);
  const write = createWriter(files, options);
  const drainAll = (drainMs: number): Promise<void> => {
    port.release();
    return processes?.isRunning() === false ? Promise.resolve() : drain(options, admin, drainMs);
  };
  // The clusters of an Envoy that runs on stay active until the disk has room.
  if (isFound) void write(options.clusters);
  else if (processes !== undefined) await requireFree(options.listen);
  // The kubelet has a limit of its own.
  else await followDrain(dir, () => drainAll(Number.POSITIVE_INFINITY), signal);
  await port.hold(options.listen);
  await processes?.start();
  return {
    apply: (clusters) => {
      // Before a new cluster asks for them.
      endpoints.update(clusters);
      return write(clusters);
    },
    listening: waitForListener(options, admin, options.listen),
    listenAt: async (listen) => {
      await port.hold(listen);
      const isChanged = await untilWritten(() => putListener(listen), options);
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
    stop: async ({ drainMs = DRAIN_MS }: EnvoyStopOptions = {}) => {
      await drainAll(drainMs);
      await processes?.end();
    },
  };
}

async function openFiles(options: EnvoyOptions, paths: EnvoyPaths) {
  const limits = { ...DEFAULTS, ...options.limits };
  await mkdir(options.dir, { recursive: true, mode: 0o700 });
  await makeXdsFolders(paths);
  const files = createXdsFiles({
    paths,
    decideSocket: options.decideSocket,
    maxBodyBytes: limits.maxBodyBytes,
    upstreamTls: upstreamFiles(paths, options),
    platform: process.platform,
  });
  const bootstrap = renderBootstrap({
    listenersFile: paths.listeners,
    clustersFile: paths.clusters,
    adminSocket: paths.admin,
    endpointsSocket: paths.endpoints,
    ...limits,
  });
  await putSecrets(files, paths, options);
  const common = {
    ...limits,
    cors: options.cors,
    accessLogFile: paths.accessLog,
    heldSocket: paths.held,
    secretFile: options.tls === undefined ? undefined : paths.secret,
  };
  const putListener = (listen: ListenAddress) =>
    files.put(paths.listeners, renderListeners({ ...common, listen }));
  await putListener(options.listen);
  return { files, bootstrap, putListener };
}

function ignore(): void {}

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

function upstreamFiles(paths: EnvoyPaths, { upstreamTls }: EnvoyOptions): XdsFilesOptions["upstreamTls"] {
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

function processesOf(
  { concurrency, supervisor, clock, log, signal, dir }: EnvoyOptions,
  program: string,
  paths: EnvoyPaths,
  { bootstrap, requirePort }: { readonly bootstrap: string; readonly requirePort: () => Promise<void> },
): EnvoyProcesses {
  const common = [
    ...[
      "-c",
      paths.bootstrap,
      "--base-id",
      String(baseId(dir)),
      "--socket-path",
      join(dir, "restart"),
      "--socket-mode",
      "600",
    ],
    ...[
      "--file-flush-interval-msec",
      "10",
      "--drain-strategy",
      "immediate",
      "--drain-time-s",
      String(DRAIN_SECONDS),
    ],
    ...["--parent-shutdown-time-s", String(REPLACED_SECONDS)],
    // It warns of each use of an extension that may change; the version is pinned.
    ...["-l", "warning", "--component-log-level", "misc:error"],
    ...(concurrency === undefined ? [] : ["--concurrency", String(concurrency)]),
  ];
  const { size, mtimeMs } = statSync(program);
  const settings = JSON.stringify([bootstrap, common, realpathSync(program), size, mtimeMs]);
  const fingerprint = sha256Hex(settings).slice(0, FINGERPRINT_LENGTH);
  const args = (epoch: number) => [...common, "--restart-epoch", String(epoch)];
  const folder = paths.processes;
  return createEnvoyProcesses({
    program,
    args,
    fingerprint,
    folder,
    requirePort,
    supervisor,
    clock,
    log,
    signal,
  });
}

/** Names shared memory, so that gateways with other folders do not meet. */
function baseId(dir: string): number {
  return Number.parseInt(sha256Hex(dir).slice(0, 7), 16);
}

/** One write at a time, with a pause between two; of several waiting ones, only the newest is written. */
function createWriter(files: XdsFiles, options: EnvoyOptions): Envoy["apply"] {
  const { clock, signal } = options;
  let desired: readonly EnvoyCluster[] | undefined;
  let writing: Promise<void> | undefined;
  let nextMs = 0;
  const writeAll = async (): Promise<void> => {
    while (desired !== undefined && !signal.aborted) {
      const waitMs = nextMs - clock.monotonicMs();
      if (waitMs > 0) await pause(clock, waitMs);
      let clusters = desired;
      const write = (): Promise<boolean> => {
        clusters = desired ?? clusters;
        desired = undefined;
        return files.putClusters(clusters);
      };
      // Envoy reads the whole file each time.
      if (await untilWritten(write, options)) nextMs = clock.monotonicMs() + WRITE_GAP_MS;
    }
  };
  return (clusters) => {
    desired = clusters;
    writing ??= writeAll().finally(() => {
      writing = undefined;
    });
    return writing;
  };
}

/** Repeats a failing write, while Envoy keeps what it has. Resolves to undefined once the signal is aborted. */
async function untilWritten<T>(
  write: () => Promise<T>,
  { clock, log, signal }: EnvoyOptions,
): Promise<T | undefined> {
  for (let failures = 0; !signal.aborted; failures += 1) {
    try {
      const result = await write();
      if (failures > 0) log.info({}, "envoy's configuration can be written again");
      return result;
    } catch (err) {
      if (failures === 0)
        log.error({ err }, "cannot write envoy's configuration; the previous one stays active; retrying");
      await pause(clock, WRITE_RETRY_MS);
    }
  }
  return undefined;
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

/** Closes the listener, and waits for requests in flight. */
async function drain({ clock, log }: EnvoyOptions, admin: EnvoyAdmin, drainMs: number): Promise<void> {
  const deadline = clock.monotonicMs() + drainMs;
  await admin.post("/healthcheck/fail");
  await admin.post("/drain_listeners");
  for (;;) {
    const stats = await admin.get("/stats?filter=^http\\.metalbridge\\.downstream_rq_active$");
    const active = Number(/: (\d+)/.exec(stats ?? "")?.[1] ?? 0);
    if (active === 0) return;
    if (clock.monotonicMs() > deadline) return log.warn({ active }, "stopping envoy with requests in flight");
    await pause(clock, DRAIN_CHECK_MS);
  }
}

/** Kubernetes stops Envoy's container first: its preStop hook writes one file, and waits for the other. */
async function followDrain(dir: string, work: () => Promise<void>, signal: AbortSignal): Promise<void> {
  for (const name of [DRAIN_WANTED, DRAIN_DONE]) await rm(join(dir, name), { force: true });
  const follow = async (): Promise<void> => {
    for await (const { filename } of watch(dir, { signal })) {
      if (filename !== DRAIN_WANTED) continue;
      await work();
      await writeFile(join(dir, DRAIN_DONE), "");
      return;
    }
  };
  // Ends with the signal.
  follow().catch(() => {});
}

function pause({ after }: EnvoyOptions["clock"], ms: number): Promise<void> {
  return new Promise((resolve) => after(ms, resolve));
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
