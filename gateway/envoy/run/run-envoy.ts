/** Runs one Envoy by files in a folder, for a gateway or a relay: its process, its endpoints, writes that a full disk delays, and its end. */
import { realpathSync, statSync } from "node:fs";
import { mkdir, rm, watch, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sha256Hex } from "../../../src/util/hash.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { serveEndpoints } from "../grpc/server.ts";
import { renderBootstrap } from "../render/bootstrap.ts";
import { renderKeyPair } from "../render/typed.ts";
import type { EnvoyCluster, EnvoyKeyPair, EnvoyLimits, EnvoyOptions } from "../types.ts";
import { createAdmin, type EnvoyAdmin } from "./admin.ts";
import { type EnvoyPaths, envoyPaths } from "./paths.ts";
import { createEnvoyProcesses, type EnvoyProcesses } from "./processes.ts";
import { createXdsFiles, makeXdsFolders, type XdsFiles, type XdsFilesOptions } from "./xds-files.ts";

const DRAIN_CHECK_MS = 50;
/** Clients that keep a connection learn of the end with their next response. */
const KEPT_MS = 10_000;
const WRITE_RETRY_MS = 1_000;
const WRITE_GAP_MS = 100;
/** A replaced Envoy finishes its requests for this long. */
const REPLACED_SECONDS = 900;
const DRAIN_SECONDS = 10;
const FINGERPRINT_LENGTH = 16;
/** Files by which the container of Envoy asks for the end of its requests before it stops. */
const DRAIN_WANTED = "drain";
const DRAIN_DONE = "drained";

export type EnvoyProcessOptions = Pick<
  EnvoyOptions,
  | "dir"
  | "envoy"
  | "clusters"
  | "keyPair"
  | "supervisor"
  | "concurrency"
  | "onAccepted"
  | "onAnswered"
  | "onExited"
  | "clock"
  | "log"
  | "signal"
>;

export interface EnvoyRunOptions
  extends EnvoyProcessOptions,
    Pick<XdsFilesOptions, "renderCluster" | "ownClusters"> {
  readonly limits: Required<Pick<EnvoyLimits, "maxClientConnections" | "crowdedHeapBytes">>;
  /** Writes listeners and secrets before Envoy starts. */
  readonly prepare: (files: XdsFiles) => Promise<void>;
  /** The port of clients, if it stays open while Envoy restarts. */
  readonly port?: {
    readonly hold: () => Promise<void>;
    readonly release: () => void;
    readonly requireFree: () => Promise<void>;
  };
  /** Called before a process is started, unless one is found. */
  readonly beforeFirst?: () => Promise<void>;
  /** Called when the container of Envoy asks for the end of its requests. */
  readonly onDrain?: () => void;
}

export interface EnvoyState {
  readonly clusters: readonly EnvoyCluster[];
  /** The file of listeners. Absent: unchanged. */
  readonly listeners?: string;
}

export interface EnvoyDrain {
  /** Maximum time for requests in flight. */
  readonly drainMs: number;
  /** Maximum time for clients to close connections that they keep. */
  readonly keptMs: number;
}

export interface EnvoyRun {
  readonly admin: EnvoyAdmin;
  /** Undefined: another container runs Envoy. */
  readonly processes: EnvoyProcesses | undefined;
  /** Sends endpoints at once, and writes clusters, then listeners, as far as they differ. Overlapping calls are merged, and the last one wins. */
  readonly apply: (state: EnvoyState) => Promise<void>;
  readonly present: (keyPair: EnvoyKeyPair) => Promise<void>;
  /** Writes a file, and repeats that while it fails. True if it was changed; undefined at the end of the run. */
  readonly put: (path: string, text: string) => Promise<boolean | undefined>;
  readonly stop: (drain: EnvoyDrain) => Promise<void>;
}

/** Resolves when the files are written and Envoy is starting. Throws the system error of a file that cannot be written. */
export async function runEnvoy(options: EnvoyRunOptions): Promise<EnvoyRun> {
  const { dir, envoy, keyPair, limits, log, signal } = options;
  const { onAccepted = ignore, onAnswered = ignore, onExited = ignore } = options;
  const paths = envoyPaths(dir);
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await makeXdsFolders(paths);
  const files = createXdsFiles({ ...options, paths });
  const bootstrap = renderBootstrap({
    listenersFile: paths.listeners,
    clustersFile: paths.clusters,
    adminSocket: paths.admin,
    endpointsSocket: paths.endpoints,
    ...limits,
  });
  if (keyPair !== undefined) await files.put(paths.transportSecret, renderKeyPair(keyPair));
  await options.prepare(files);
  const processes = envoy === "external" ? undefined : processesOf(options, envoy, paths, bootstrap);
  const isFound = processes !== undefined && (await processes.find()) > 0;
  if (!isFound) await files.putClusters(options.clusters);
  // The last one: the container of Envoy waits for it.
  await files.put(paths.bootstrap, bootstrap);

  const admin = createAdmin(paths.admin);
  const handlers = { onAccepted, onAnswered, onExited };
  const endpoints = await serveEndpoints({ socket: paths.endpoints, ...handlers, log, signal });
  endpoints.update(options.clusters);
  const write = createWriter(files, paths, options);
  // The clusters of an Envoy that runs on stay active until the disk has room.
  if (isFound) void write({ clusters: options.clusters });
  else if (processes !== undefined) await options.beforeFirst?.();
  // The kubelet has a limit of its own.
  else await followDrain(options, admin);
  await options.port?.hold();
  await processes?.start();
  const put = (path: string, text: string) => untilWritten(() => files.put(path, text), options);
  return {
    admin,
    processes,
    apply: (state) => {
      // Before a new cluster asks for them.
      endpoints.update(state.clusters);
      return write(state);
    },
    present: async (next) => {
      await put(paths.transportSecret, renderKeyPair(next));
    },
    put,
    stop: async (limit) => {
      options.port?.release();
      if (processes?.isRunning() !== false) await drain(options, admin, limit);
      await processes?.end();
    },
  };
}

function ignore(): void {}

function processesOf(
  { concurrency, supervisor, clock, log, signal, dir, port }: EnvoyRunOptions,
  program: string,
  paths: EnvoyPaths,
  bootstrap: string,
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
  const requirePort = port?.requireFree;
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
function createWriter(files: XdsFiles, paths: EnvoyPaths, options: EnvoyProcessOptions): EnvoyRun["apply"] {
  const { clock, signal } = options;
  let desired: EnvoyState | undefined;
  let writing: Promise<void> | undefined;
  let nextMs = 0;
  const writeAll = async (): Promise<void> => {
    while (desired !== undefined && !signal.aborted) {
      const waitMs = nextMs - clock.monotonicMs();
      if (waitMs > 0) await pause(clock, waitMs);
      let state = desired;
      const write = async (): Promise<boolean> => {
        state = desired ?? state;
        desired = undefined;
        // A listener needs its cluster.
        const hasClusters = await files.putClusters(state.clusters);
        const { listeners } = state;
        return (listeners !== undefined && (await files.put(paths.listeners, listeners))) || hasClusters;
      };
      // Envoy reads the whole file each time.
      if (await untilWritten(write, options)) nextMs = clock.monotonicMs() + WRITE_GAP_MS;
    }
  };
  return (state) => {
    desired = state;
    writing ??= writeAll().finally(() => {
      writing = undefined;
    });
    return writing;
  };
}

/** Repeats a failing write, while Envoy keeps what it has. Resolves to undefined once the signal is aborted. */
async function untilWritten<T>(
  write: () => Promise<T>,
  { clock, log, signal }: EnvoyProcessOptions,
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

const DOWNSTREAM_STATS = String.raw`^http\.metalbridge\.downstream_(rq|cx)_active$`;

/** Closes the listeners, and waits for requests in flight, and for clients that keep a connection: each response closes it. */
async function drain(
  { clock, log }: EnvoyProcessOptions,
  admin: EnvoyAdmin,
  { drainMs, keptMs }: EnvoyDrain,
): Promise<void> {
  const startMs = clock.monotonicMs();
  await admin.post("/healthcheck/fail");
  await admin.post("/drain_listeners");
  for (;;) {
    const stats = await admin.get(`/stats?filter=${encodeURIComponent(DOWNSTREAM_STATS)}`);
    const countOf = (name: string) => Number(new RegExp(`${name}: (\\d+)`).exec(stats ?? "")?.[1] ?? 0);
    const active = countOf("downstream_rq_active");
    const passedMs = clock.monotonicMs() - startMs;
    if (active === 0 && (passedMs >= keptMs || countOf("downstream_cx_active") === 0)) return;
    if (passedMs > drainMs) return log.warn({ active }, "stopping envoy with requests in flight");
    await pause(clock, DRAIN_CHECK_MS);
  }
}

/** Kubernetes stops Envoy's container first: its preStop hook writes one file, and waits for the other. */
async function followDrain(options: EnvoyRunOptions, admin: EnvoyAdmin): Promise<void> {
  const { dir, onDrain, port, signal } = options;
  for (const name of [DRAIN_WANTED, DRAIN_DONE]) await rm(join(dir, name), { force: true });
  const follow = async (): Promise<void> => {
    for await (const { filename } of watch(dir, { signal })) {
      if (filename !== DRAIN_WANTED) continue;
      onDrain?.();
      port?.release();
      await drain(options, admin, { drainMs: Number.POSITIVE_INFINITY, keptMs: KEPT_MS });
      await writeFile(join(dir, DRAIN_DONE), "");
      return;
    }
  };
  // Ends with the signal.
  follow().catch(() => {});
}

export function pause({ after }: Pick<Clock, "after">, ms: number): Promise<void> {
  return new Promise((resolve) => after(ms, resolve));
}
