/** Starts a control plane in a folder. */
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { writeFileAtomicSync } from "../../src/util/atomic-file.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { hostInUrl } from "../../src/util/host-in-url.ts";
import type { Log } from "../../src/util/ports.ts";
import { truncateIfLarge } from "../log-size.ts";
import { describeApiServer } from "./components/api-server.ts";
import type { Component } from "./components/component.ts";
import { describeControllerManager } from "./components/controller-manager.ts";
import { describeEtcd, ETCD_SOCKET } from "./components/etcd.ts";
import { describeScheduler, renderSchedulerConfig, type SchedulerConfig } from "./components/scheduler.ts";
import type { ClusterParts } from "./parts.ts";
import { tailOf } from "./process/log-tail.ts";
import { type Supervised, supervise } from "./process/supervise.ts";
import { type ApiAccess, callApi } from "./request.ts";
import { certificateFile, dropOldCertificate } from "./state/certificate.ts";
import { type ControlPlaneCredentials, ensureCredentials } from "./state/credentials.ts";
import { CONTROL_PLANE_FREE_BYTES, isDiskFull, requireFreeSpace } from "./state/disk.ts";
import { renderKubeconfig } from "./state/kubeconfig.ts";
import { type ControlPlaneLayout, controlPlaneLayoutOf } from "./state/layout.ts";
import { chooseApiPort } from "./state/port.ts";
import { readSettings, writeSettings } from "./state/settings.ts";

export interface ControlPlaneOptions {
  readonly dir: string;
  readonly parts: ClusterParts;
  readonly log: Log;
  /** By default, a free port that is reused by later runs. */
  readonly port?: number | undefined;
  /** Address to listen on. The default is loopback. */
  readonly bindAddress?: string | undefined;
  /** Only for tests: uses a third less CPU time and more memory, and may lose data if the machine crashes. */
  readonly isThrowaway?: boolean;
  readonly controllerManager?: boolean;
  /** False by default: there are no nodes. */
  readonly scheduler?: boolean;
  /** Starts the scheduler with this configuration. */
  readonly schedulerConfig?: SchedulerConfig | undefined;
  /** Additional flags of kube-apiserver. */
  readonly apiServerArgs?: readonly string[] | undefined;
  /** Additional flags of kube-controller-manager. */
  readonly controllerManagerArgs?: readonly string[] | undefined;
  readonly readyTimeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

export interface ControlPlane {
  /** Path of the administrator's kubeconfig. */
  readonly kubeconfig: string;
  readonly url: string;
  readonly access: ApiAccess;
  readonly port: number;
  /** For operations that the API server does not offer, such as compaction. */
  readonly etcdSocket: string;
  /** Names of the running parts. */
  readonly running: () => readonly string[];
  readonly stop: () => Promise<void>;
  readonly stopApiServer: () => Promise<void>;
  /** Uses the same port and certificate. Resolves when the API server is ready. */
  readonly startApiServer: () => Promise<void>;
  /** Kills the part without warning. The supervisor restarts it. */
  readonly crash: (part: "etcd" | "kube-apiserver" | "kube-controller-manager" | "kube-scheduler") => void;
}

/** Takes a twentieth of its CPU time. */
const NO_FLOW_CONTROL = ["--enable-priority-and-fairness=false"];
const READY_TIMEOUT_MS = 90_000;
const MAX_OLD_LOG_BYTES = 8 * 1024 * 1024;

/** Resolves when /readyz reports ok. After a failure, all started parts are stopped. */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const address = options.bindAddress ?? "127.0.0.1";
  await requireFreeSpace(options.dir, CONTROL_PLANE_FREE_BYTES, "etcd allocates its log when it starts");
  const layout = prepareFolder(options.dir, address);
  const credentials = ensureCredentials(layout);
  dropOldCertificate(layout.certificates(address), Date.now());
  const port = await chooseApiPort({
    requested: options.port,
    previous: readSettings(layout.settings)?.port,
    address,
  });
  writeSettings(layout.settings, { version: 1, port });

  const plan = { layout, credentials, address, port, url: `https://${hostInUrl(address)}:${port}` };
  const parts = startParts(options, plan);
  try {
    const access = await parts.ready();
    writeFileAtomicSync(
      layout.kubeconfig,
      kubeconfigFor(access, credentials.adminToken, "metalbridge-admin"),
    );
    parts.startClients(access);
    return {
      kubeconfig: layout.kubeconfig,
      url: plan.url,
      access,
      port,
      etcdSocket: path.join(layout.run, ETCD_SOCKET),
      running: parts.running,
      stop: parts.stop,
      stopApiServer: parts.stopApiServer,
      startApiServer: parts.startApiServer,
      crash: parts.crash,
    };
  } catch (error) {
    await parts.stop();
    throw error;
  }
}

interface Plan {
  readonly layout: ControlPlaneLayout;
  readonly credentials: ControlPlaneCredentials;
  readonly address: string;
  readonly port: number;
  readonly url: string;
}

/** The running parts. The API server is stopped before etcd, because it hangs without etcd. */
function startParts(options: ControlPlaneOptions, plan: Plan) {
  const { layout, address, port } = plan;
  const { log } = options;
  const running = new Map<string, Supervised>();
  const isThrowaway = options.isThrowaway === true;
  // Collects garbage only near the memory limit.
  const env: Record<string, string> = isThrowaway ? { GOGC: "off", GOMEMLIMIT: "512MiB" } : {};
  const start = (component: Component) =>
    running.set(component.name, supervise({ ...component, env: { ...component.env, ...env } }, log));
  const stopPart = async (name: string) => {
    await running.get(name)?.stop();
    running.delete(name);
  };
  const apiServer = describeApiServer(options.parts, layout, {
    address,
    port,
    moreArgs: [...(isThrowaway ? NO_FLOW_CONTROL : []), ...(options.apiServerArgs ?? [])],
  });
  const ready = () =>
    waitUntilReady({
      url: plan.url,
      certificateFile: certificateFile(layout.certificates(address)),
      token: plan.credentials.adminToken,
      parts: [...running.values()].map((supervised) => ({
        supervised,
        logFile: layout.log(supervised.name),
      })),
      timeoutMs: options.readyTimeoutMs ?? READY_TIMEOUT_MS,
      signal: options.signal,
    });
  start(describeEtcd(options.parts, layout, { fsync: !isThrowaway }));
  start(apiServer);
  let stopped: Promise<void> | undefined;
  return {
    ready,
    running: () => [...running.keys()],
    crash: (part: string) => running.get(part)?.kill(),
    stopApiServer: () => stopPart(apiServer.name),
    startApiServer: async () => {
      if (!running.has(apiServer.name)) start(apiServer);
      await ready();
    },
    startClients: (access: ApiAccess) => {
      const startClient = (component: Component | undefined, kubeconfig: string, token: string) => {
        if (component === undefined) return;
        writeFileAtomicSync(kubeconfig, kubeconfigFor(access, token, component.name));
        start(component);
      };
      const { controllerManagerToken, schedulerToken } = plan.credentials;
      if (options.controllerManager !== false) {
        const moreArgs = options.controllerManagerArgs;
        const component = describeControllerManager(options.parts, layout, { address, moreArgs });
        startClient(component, layout.controllerManagerKubeconfig, controllerManagerToken);
      }
      const { schedulerConfig } = options;
      if (schedulerConfig !== undefined)
        writeFileAtomicSync(layout.schedulerConfig, renderSchedulerConfig(schedulerConfig, layout));
      if (options.scheduler === true || schedulerConfig !== undefined) {
        const hasConfig = schedulerConfig !== undefined;
        const component = describeScheduler(options.parts, layout, { hasConfig });
        startClient(component, layout.schedulerKubeconfig, schedulerToken);
      }
    },
    stop: () => {
      stopped ??= (async () => {
        await Promise.all(["kube-controller-manager", "kube-scheduler"].map(stopPart));
        for (const name of ["kube-apiserver", "etcd"]) await stopPart(name);
        rmSync(layout.run, { recursive: true, force: true });
      })();
      return stopped;
    },
  };
}

function kubeconfigFor({ url, certificateAuthority }: ApiAccess, token: string, user: string): string {
  return renderKubeconfig({ url, certificateAuthority, token, user });
}

/** Creates the folders of this run for this user only, and removes the folders of earlier runs. */
function prepareFolder(dir: string, address: string): ControlPlaneLayout {
  const layout = controlPlaneLayoutOf(dir, `${process.pid}-${randomBytes(3).toString("hex")}`);
  try {
    rmSync(layout.runs, { recursive: true, force: true });
    for (const folder of [
      layout.dir,
      layout.secrets,
      layout.logs,
      layout.runs,
      layout.run,
      layout.etcdData,
    ]) {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
    }
    mkdirSync(layout.certificates(address), { recursive: true, mode: 0o700 });
    for (const part of ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"])
      truncateIfLarge(layout.log(part), MAX_OLD_LOG_BYTES);
    return layout;
  } catch (cause) {
    const message = `${layout.dir}: ${errorMessage(cause)}`;
    throw new MetalbridgeError("StateFolderUnusable", message, undefined, { cause });
  }
}

const POLL_MS = 100;
/** After this many exits before it is ready, a part cannot recover without a change. */
const TERMINAL_CRASHES = 3;

interface ReadinessInput {
  readonly url: string;
  readonly certificateFile: string;
  readonly token: string;
  readonly parts: readonly { readonly supervised: Supervised; readonly logFile: string }[];
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Throws StateDiskFull, or ControlPlanePartFailed with the end of the log of the failed part. */
async function waitUntilReady(input: ReadinessInput): Promise<ApiAccess> {
  const deadline = performance.now() + input.timeoutMs;
  const crashesBefore = new Map(input.parts.map((part) => [part, part.supervised.crashes()]));
  let last = "no response yet";
  while (performance.now() < deadline) {
    input.signal?.throwIfAborted();
    const readiness = await checkReadiness(input);
    if (typeof readiness === "object") return readiness;
    last = readiness;
    for (const part of input.parts) {
      const crashes = part.supervised.crashes() - (crashesBefore.get(part) ?? 0);
      if (crashes >= TERMINAL_CRASHES) throw partFailed(part, `exited ${crashes} times while starting`);
    }
    await pause(POLL_MS);
  }
  const slowest = input.parts.at(-1);
  const seconds = Math.round(input.timeoutMs / 1000);
  if (slowest === undefined)
    throw new MetalbridgeError("ControlPlanePartFailed", `not ready after ${seconds} s: ${last}`);
  throw partFailed(slowest, `not ready after ${seconds} s: ${last}`);
}

async function checkReadiness(input: ReadinessInput): Promise<ApiAccess | string> {
  try {
    const certificateAuthority = readFileSync(input.certificateFile, "utf8");
    const access = { url: input.url, certificateAuthority, token: input.token };
    const response = await callApi(access, { method: "GET", path: "/readyz", timeoutMs: 2_000 });
    return response.status === 200 ? access : `/readyz answered ${response.status}`;
  } catch (error) {
    return errorMessage(error);
  }
}

function partFailed(part: ReadinessInput["parts"][number], why: string): MetalbridgeError {
  const { name } = part.supervised;
  if (isDiskFull(part.logFile))
    return new MetalbridgeError("StateDiskFull", `${name} exited, and the disk of ${part.logFile} is full`);
  const tail = tailOf(part.logFile, 1_500);
  return new MetalbridgeError("ControlPlanePartFailed", `${name} ${why}`, {
    summary: `its log (${part.logFile}) ends with:\n${tail}`,
  });
}
