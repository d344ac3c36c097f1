/** Takes all readings that doctor checks, concurrently. */

import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { constants, existsSync } from "node:fs";
import { access, readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { homedir, networkInterfaces } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import type { AgentConfig } from "../../agent/config/schema.ts";
import { createHostReader } from "../../agent/host/reader.ts";
import { findRunningAgent } from "../../agent/state-dir/lock.ts";
import { readDiskSpace } from "../../agent/store/content/disk.ts";
import { packageRoot } from "../../local/package-root.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import {
  type CredentialReading,
  type FileReading,
  type FoundEngine,
  type Reading,
  type Readings,
  type TakenReadings,
  valueOfReading,
} from "../../src/doctor/readings.ts";
import { type KubeconfigSource, loadKubeconfig } from "../../src/kube/client/kubeconfig.ts";
import { decodeToken } from "../../src/kube/token.ts";
import { FIREWALL_FOLDER } from "../../src/macos/doctor/firewall.ts";
import type { Listener, RunningProgram } from "../../src/macos/doctor/programs.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import { createRunCommand, createRunTool } from "../../src/util/command.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { parseJson } from "../../src/util/parse-json.ts";
import { openCluster, readCluster } from "./cluster.ts";
import { readDarwin } from "./darwin.ts";
import { findEngines, foundRuntimesOf, readPinnedEngines } from "./engines.ts";
import { type OwnEngines, readFiles, readOwnEngines, readStateDir, readWriteSpeed } from "./files.ts";
import { readLinux } from "./linux.ts";
import { lookupFault, tryReach } from "./reach.ts";
import { knownReading, mapReading, readAll } from "./read-all.ts";
import type { Tools } from "./system.ts";

const API_SERVER = "API server";
/** Share of the limit for one tool: some readings run several tools. */
const TOOL_SHARE = 0.6;
/** Share of the limit for one request to the API server. */
const REQUEST_SHARE = 0.75;

export interface GatherOptions {
  readonly config: AgentConfig;
  /** Time limit of each reading. */
  readonly limitMs: number;
  /** The configuration file, if there is one. */
  readonly configFile?: string | undefined;
  readonly toolPath: string;
  readonly tempDir: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Prefix of the installation whose engines are checked. */
  readonly prefix?: string | undefined;
}

export interface Gathered {
  readonly taken: TakenReadings;
  readonly inventory: Reading<Inventory>;
}

export async function gather(options: GatherOptions): Promise<Gathered> {
  const { config, toolPath, limitMs } = options;
  const path = `${toolPath}:/usr/sbin:/sbin:${FIREWALL_FOLDER}`;
  const run = createRunTool(path, limitMs * TOOL_SHARE);
  const { env } = options;
  const engines = findEngines(config, { PATH: env.PATH ?? toolPath, HOME: env.HOME ?? "/" }, options);
  const connection = await openCluster(config);
  const server = connection instanceof MetalbridgeError ? undefined : new URL(connection.server).hostname;
  const runtimes = engines.then(foundRuntimesOf);
  const names = readNames(server, config.huggingFace.endpoint);
  const serverFault = names.then((found) => found.find(({ use }) => use === API_SERVER)?.error);
  const timeoutMs = limitMs * REQUEST_SHARE;
  const cluster = readCluster(connection, { config, up: ownAddresses(), runtimes, serverFault, timeoutMs });
  const tools: Tools = {
    run,
    config,
    limitMs,
    engines,
    server,
    tryReach,
    routed: cluster.then(({ routed }) => routed),
  };
  const own = tryReadOwnEngines(config.stateDir);
  const [common, system, inventory] = await Promise.all([
    takeCommon(options, { engines, cluster, own, names }),
    config.platform === "darwin" ? readDarwin(tools) : readLinux(tools),
    readInventoryOf(config.platform, limitMs),
  ]);
  if (!(connection instanceof MetalbridgeError)) connection.close();
  const { programs, listeners, ephemeral, ...otherReadings } = system;
  const agentPid = Number(valueOfReading(common.agent)?.pid);
  return {
    inventory,
    taken: {
      ...common,
      ...otherReadings,
      nowMs: { value: Date.now() },
      disks: mapReading(inventory, ({ diskLayout }) => diskLayout),
      ...(programs && {
        processes: combineReadings(programs, own, (found, { pids }) =>
          classifyProcesses(found, pids, agentPid),
        ),
      }),
      ...(listeners && {
        ports: combineReadings(listeners, own, (found, engines) =>
          classifyPorts(config.portRange, found, engines, valueOfReading(ephemeral)),
        ),
      }),
      engineFolders: mapReading(own, ({ folders }) => folders),
    },
  };
}

/** systeminformation reads only the machine that it runs on. */
async function readInventoryOf(
  platform: AgentConfig["platform"],
  limitMs: number,
): Promise<Reading<Inventory>> {
  if (platform === process.platform) return readInventory(limitMs);
  return { unknown: `systeminformation runs on ${process.platform} here` };
}

interface StartedReadings {
  readonly engines: Promise<readonly FoundEngine[]>;
  readonly cluster: ReturnType<typeof readCluster>;
  readonly own: Reading<OwnEngines>;
  readonly names: ReturnType<typeof readNames>;
}

/** The readings that are the same on every platform. */
function takeCommon(options: GatherOptions, started: StartedReadings): Promise<TakenReadings> {
  const { config, configFile, limitMs, toolPath, tempDir, env } = options;
  const { stateDir, kubeconfig, context } = config;
  const host = createHostReader(config.platform, createRunCommand(toolPath, limitMs * TOOL_SHARE));
  const { engines, cluster, names } = started;
  return readAll(
    {
      machine: host.info().then(machineOf),
      memory: host.memory().then(memoryOf),
      store: knownReading(readSpace(config)),
      writeSpeed: readWriteSpeed(stateDir),
      names: knownReading(names),
      api: cluster.then(({ api }) => api),
      preflight: cluster.then((read) => read.preflight),
      credential: readCredential({ kubeconfigPath: kubeconfig, context }),
      engines: knownReading(engines),
      pinnedEngines: knownReading(readPinnedEngines(options.prefix)),
      agent: readAgent(stateDir, tempDir),
      stateDir: knownReading(readStateDir(stateDir)),
      files: knownReading(readFiles(ownFiles(config, configFile, env))),
    },
    limitMs,
  );
}

function ownFiles(
  { stateDir, kubeconfig, metricsTokenFile, huggingFace }: AgentConfig,
  configFile: string | undefined,
  env: GatherOptions["env"],
): readonly { readonly path: string; readonly role: FileReading["role"] }[] {
  return [
    { path: stateDir, role: "stateDir" },
    { path: kubeconfig ?? join(env.HOME ?? homedir(), ".kube", "config"), role: "kubeconfig" },
    ...(configFile === undefined ? [] : [{ path: configFile, role: "config" as const }]),
    ...[metricsTokenFile, huggingFace.tokenFile].flatMap((path) =>
      path === undefined ? [] : [{ path, role: "credential" as const }],
    ),
  ];
}

async function readSpace({ stateDir, disk }: AgentConfig): Promise<Readings["store"]> {
  const folder = join(stateDir, "models");
  return { folder, ...(await readDiskSpace(folder)), reserveBytes: disk.reserve };
}

async function readNames(server: string | undefined, hub: string): Promise<Readings["names"]> {
  const targets = [
    ...(server === undefined ? [] : [{ name: server.replace(/^\[|\]$/g, ""), use: API_SERVER }]),
    { name: new URL(hub).hostname, use: "model source" },
  ];
  return Promise.all(
    targets
      .filter(({ name }) => isIP(name) === 0)
      .map(async (target) => ({ ...target, error: await lookupFault(target.name) })),
  );
}

type HostReader = ReturnType<typeof createHostReader>;

function machineOf(info: Awaited<ReturnType<HostReader["info"]>>): Reading<Readings["machine"]> {
  const { osVersion, chip, hardwareModel } = info;
  return osVersion === undefined
    ? { unknown: "the system's version cannot be read" }
    : { value: { osVersion, chip, hardwareModel } };
}

function memoryOf(memory: Awaited<ReturnType<HostReader["memory"]>>): Reading<Readings["memory"]> {
  return memory.pressure === "Unknown"
    ? { unknown: "the system does not report memory pressure" }
    : { value: memory };
}

/** An agent may be running even if this user cannot enter its state folder. */
async function readAgent(stateDir: string, tempDir: string): Promise<Reading<Readings["agent"]>> {
  const denied = await access(stateDir, constants.X_OK).catch(systemCode);
  if (denied === "EACCES") return { unknown: `${stateDir} cannot be entered by this user` };
  const pid = await findRunningAgent(stateDir, tempDir);
  return { value: pid === undefined ? { isRunning: false } : { isRunning: true, pid } };
}

function tryReadOwnEngines(stateDir: string): Reading<OwnEngines> {
  try {
    return { value: readOwnEngines(stateDir) };
  } catch (error) {
    return { unknown: `${stateDir} cannot be read: ${errorMessage(error)}` };
  }
}

/** The engines, the agent, this doctor and all their child processes count as ours. */
function classifyProcesses(
  programs: readonly RunningProgram[],
  pids: ReadonlySet<number>,
  agentPid: number,
): Readings["processes"] {
  const parents = new Map(programs.map(({ pid, parent }) => [pid, parent]));
  const roots = new Set([...pids, agentPid, process.pid]);
  const isOurs = (pid: number | undefined, depth = 0): boolean =>
    pid !== undefined && depth < 64 && (roots.has(pid) || isOurs(parents.get(pid), depth + 1));
  return programs.map(({ pid, command }) => ({ pid, command, isOurs: isOurs(pid) }));
}

function classifyPorts(
  [first, last]: AgentConfig["portRange"],
  listeners: readonly Listener[],
  own: OwnEngines,
  ephemeral: readonly [number, number] | undefined,
): Readings["ports"] {
  const classified = listeners.map((one) => ({
    ...one,
    isOurs: own.ports.has(one.port) || (one.pid !== undefined && own.pids.has(one.pid)),
  }));
  return { first, last, listeners: classified, ephemeral };
}

function ownAddresses(): ReadonlySet<string> {
  return new Set(
    Object.values(networkInterfaces()).flatMap((found) => (found ?? []).map(({ address }) => address)),
  );
}

function combineReadings<A, B, C>(a: Reading<A>, b: Reading<B>, join: (a: A, b: B) => C): Reading<C> {
  return "unknown" in a ? a : mapReading(b, (value) => join(a.value, value));
}

/** Undefined for a plugin, which renews its credentials. Throws MetalbridgeError for a kubeconfig that cannot work. */
async function readCredential(source: KubeconfigSource): Promise<Reading<CredentialReading> | undefined> {
  const user = loadKubeconfig(source).getCurrentUser();
  if (user === null || user.exec !== undefined) return undefined;
  const file = tokenFileOf(user.authProvider);
  const token = file === undefined ? user.token : (await readFile(file, "utf8")).trim();
  if (token !== undefined && token !== "") return readTokenValidity(token);
  const certificate =
    user.certData === undefined
      ? user.certFile && (await readFile(user.certFile, "utf8"))
      : Buffer.from(user.certData, "base64");
  if (certificate === undefined || certificate === "")
    return { unknown: "the kubeconfig has neither token nor certificate" };
  const { validFromDate, validToDate } = new X509Certificate(certificate);
  return { value: { kind: "certificate", fromMs: validFromDate.getTime(), untilMs: validToDate.getTime() } };
}

function tokenFileOf(authProvider: unknown): string | undefined {
  const config =
    typeof authProvider === "object" && authProvider !== null && Reflect.get(authProvider, "config");
  const file = typeof config === "object" && config !== null && Reflect.get(config, "tokenFile");
  return typeof file === "string" && file !== "" ? file : undefined;
}

function readTokenValidity(token: string): Reading<CredentialReading> {
  const claims = decodeToken(token);
  if (claims === undefined)
    return { unknown: "the token is not a JSON Web Token: how long it is valid cannot be read" };
  const toMs = (seconds: unknown) => (typeof seconds === "number" ? seconds * 1_000 : undefined);
  return { value: { kind: "token", fromMs: toMs(claims.iat), untilMs: toMs(claims.exp) } };
}

const text = z.string().default("");
const controller = z.object({ vendor: text, model: text, driverVersion: z.string().optional() });
const network = z.object({ iface: z.string(), type: text, speed: z.number().nullish(), operstate: text });

const inventorySchema = z.object({
  system: z.object({ manufacturer: text, model: text }),
  cpu: z.object({ manufacturer: text, brand: text, physicalCores: z.number().default(0) }),
  osInfo: z.object({ distro: text, release: text, arch: text }),
  graphics: z.object({ controllers: z.array(controller).default([]) }),
  diskLayout: z.array(z.object({ name: text, type: text, size: z.number().nullish(), interfaceType: text })),
  networkInterfaces: z.array(network).default([]),
});

type Inventory = z.output<typeof inventorySchema>;

/**
 * Reads the inventory of this machine, because systeminformation has no support for others, without serial numbers and addresses. The
 * process is killed after `timeoutMs`.
 */
function readInventory(timeoutMs: number): Promise<Reading<Inventory>> {
  const bundled = join(packageRoot(), "dist", "inventory.mjs");
  const source = join(packageRoot(), "cli", "doctor", "inventory.mjs");
  const program = existsSync(source) ? source : bundled;
  return new Promise((resolve) => {
    const options = { timeout: timeoutMs, killSignal: "SIGKILL", maxBuffer: 4 << 20 } as const;
    execFile(process.execPath, [program], options, (error, stdout, stderr) => {
      if (error !== null) {
        const why =
          error.killed === true ? `did not end within ${timeoutMs / 1_000} s` : stderr.split("\n")[0];
        return resolve({ unknown: `systeminformation ${why}` });
      }
      const parsed = inventorySchema.safeParse(parseJson(stdout));
      resolve(
        parsed.success ? { value: parsed.data } : { unknown: "systeminformation's answer is not understood" },
      );
    });
  });
}
