/** Ollama as an engine: a shared server, of our own or found, that has one model per set of weights. */
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { findDegraded } from "../../../src/engines/llamacpp/exit.ts";
import { ollamaClaims } from "../../../src/engines/ollama/claims.ts";
import { classifyExit, ownLines } from "../../../src/engines/ollama/exit.ts";
import {
  modelName,
  type OllamaSettings,
  ollamaSettings,
  serverName,
} from "../../../src/engines/ollama/settings.ts";
import { hostAccelerator } from "../../../src/engines/registry.ts";
import { createRunCommand } from "../../../src/util/command.ts";
import { createSerializer } from "../../../src/util/serializer.ts";
import type { DaemonSpec, ModelReference } from "../../instances/daemon/spec.ts";
import type { EngineDriver, EngineLaunch, EngineOptions, HostEngine } from "../engine.ts";
import { type Address, addressIn } from "../io/http.ts";
import { weightsIdentity } from "../io/weights.ts";
import { ollamaApi } from "./api.ts";
import { type OllamaConfig, ollamaConfig } from "./config.ts";
import { createModelSweep } from "./leftovers.ts";
import { type ComputedDigests, createModel, type ModelOrigin, requireLoadableFiles } from "./models.ts";
import { probeHealth, probeRequest, readContextPerSlot } from "./probe.ts";
import { createOllamaFinder, detectOllama } from "./program.ts";
import { createPuller, pulledName } from "./pull.ts";

/** Beside those of engines, which the agent's configuration sets. */
const PORTS = [20_900, 20_999] as const;
/** One server for all pulls: two would write the same files. */
const PULLER = "ollama-pull";
const FOUND = "ollama-found";
const NEVER_EVICT = "1000";
const STALL_MS = 30_000;

export const ollamaEngine: HostEngine<OllamaConfig> = {
  runtime: "ollama",
  config: ollamaConfig,
  driver: ollamaDriver,
  find: ({ programs: paths, address }, { env }) =>
    address === undefined ? createOllamaFinder({ paths, env })() : detectOllama(addressIn(address)),
};

function ollamaDriver(config: OllamaConfig, options: EngineOptions): EngineDriver {
  const { env, machine, instances } = options;
  const { daemons } = instances;
  const { found, find, adopted, started, fetcher, reference } = createServers(config, options);
  const accelerator = hostAccelerator(machine.platform);
  // What others loaded in it takes memory even while no replica uses it.
  if (found !== undefined) daemons.watch(adopted(FOUND));
  return {
    runtime: "ollama",
    gate: "ollama",
    detect: () => (found === undefined ? find() : detectOllama(found)),
    open: async (place, launch) => {
      const { engine, model } = launch.template;
      const settings = ollamaSettings(engine, model.gguf);
      const spec = await started(serverName(settings), settings.environment);
      return daemons.open(place, spec, await reference(launch, settings));
    },
    adopt: async (place, { record }) =>
      typeof record.daemon === "string" ? daemons.adopt(place, adopted(record.daemon), record) : undefined,
    fetcher,
    claimBytes: (settings, { gguf, projectorBytes }) => {
      if (gguf !== undefined)
        return ollamaClaims.estimate(gguf, { ...settings, projectorSizeBytes: projectorBytes }, accelerator)
          .claimBytes;
      const message = "only a GGUF file says how much memory it needs, and the model has none";
      throw new MetalbridgeError("ClaimUnknown", message);
    },
    probeHealth,
    probeRequest,
    // It reports no requests; the gate counts them.
    readWork: async () => "unknown",
    probeLive: async (target, within) => ({ health: await probeHealth(target, within), progress: "unknown" }),
    readProgress: async () => "unknown",
    facts: async (target) => {
      const contextPerSlot = await readContextPerSlot(target);
      return contextPerSlot === undefined ? {} : { contextPerSlot };
    },
    devices: async () => [],
    classifyExit: async (exit, logTail, run) =>
      classifyExit(exit, logTail, run, await isAppRunning(machine.platform, env)),
    ownLines,
    findDegraded,
  };
}

/** The servers of this host, and what they fetch and load. */
function createServers(config: OllamaConfig, { env, machine, instances }: EngineOptions) {
  const { programs: paths, address, registry } = config;
  const find = createOllamaFinder({ paths, env });
  const found = address === undefined ? undefined : addressIn(address);
  const home = join(instances.stateDir, "ollama");
  const models = found === undefined ? join(home, "models") : undefined;
  const blobs = models === undefined ? undefined : join(models, "blobs");
  const digests: ComputedDigests = new Map();
  const inTurn = createSerializer();
  const mark = createHash("sha256").update(home).digest("hex");
  const adopted = (name: string): DaemonSpec => ({
    name,
    api: (target) => ollamaApi(target, inTurn, found === undefined || name !== FOUND ? mark : undefined),
    // An earlier configuration may have had servers of our own.
    found: found === undefined || name !== FOUND ? undefined : found,
  });
  const started = async (name: string, environment: OllamaSettings["environment"]): Promise<DaemonSpec> => {
    if (found !== undefined) return adopted(FOUND);
    const program = await find();
    if (program === undefined) throw notInstalled();
    await mkdir(join(home, "models", "blobs"), { recursive: true, mode: 0o700 });
    await writeFile(join(home, "models", "blobs", `sha256-${mark}`), "");
    const command = (port: number) => ({
      argv: [program.path, "serve"],
      env: { ...env, ...environment, ...ownServer(home, port) },
    });
    return { ...adopted(name), start: { ports: PORTS, command } };
  };
  const during = async <T>(work: (address: Address) => Promise<T>): Promise<T> =>
    instances.daemons.during(await started(PULLER, {}), work);
  const fetcher = createPuller({
    ...{ models, registry, stallMs: machine.sources?.stallMs ?? STALL_MS, during },
    reserveBytes: machine.disk?.reserve ?? 0,
  });
  if (models !== undefined) instances.daemons.sweepBy(createModelSweep({ models, during, inTurn }));
  const reference = async (launch: EngineLaunch, settings: OllamaSettings): Promise<ModelReference> => {
    const { source } = launch.template.model;
    const { files } = launch;
    requireLoadableFiles(files);
    const origin: ModelOrigin = fetcher.takes(source) ? { from: pulledName(source, registry) } : { files };
    const weights = await weightsIdentity(files);
    const model = modelName("from" in origin ? `${origin.from} ${weights}` : weights, settings);
    return {
      ...{ model, weights, record: launch.record },
      prepare: (target, signal) =>
        createModel(target, model, origin, settings, { blobs, digests, inTurn, signal }),
    };
  };
  return { found, find, adopted, started, fetcher, reference };
}

/** Its own folder, and nothing that changes what is loaded but the agent. */
function ownServer(home: string, port: number): Record<string, string> {
  return {
    HOME: home,
    OLLAMA_HOST: `127.0.0.1:${port}`,
    OLLAMA_MODELS: join(home, "models"),
    OLLAMA_KEEP_ALIVE: "-1",
    OLLAMA_MAX_LOADED_MODELS: NEVER_EVICT,
    OLLAMA_NOPRUNE: "1",
    OLLAMA_NO_CLOUD: "1",
    GIN_MODE: "release",
  };
}

function notInstalled(): MetalbridgeError {
  return new MetalbridgeError(
    "RuntimeNotInstalled",
    "ollama was not found where the configuration says, or on PATH",
    {
      summary: "install it on the host",
      command: "brew install ollama",
    },
  );
}

/** The desktop app, whose process has a capital letter. */
async function isAppRunning(
  platform: string | undefined,
  env: Readonly<Record<string, string>>,
): Promise<boolean> {
  if (platform !== "darwin") return false;
  return (await createRunCommand(env.PATH ?? "")("pgrep", ["-x", "Ollama"])) !== undefined;
}
