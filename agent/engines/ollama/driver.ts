/** Ollama as an engine: a shared server, started by the agent or found running, with one model per set of weights. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { findDegraded } from "../../../src/engines/llamacpp/exit.ts";
import { ollamaClaims } from "../../../src/engines/ollama/claims.ts";
import { classifyExit, ownLines } from "../../../src/engines/ollama/exit.ts";
import { pulledName } from "../../../src/engines/ollama/pulled.ts";
import {
  modelName,
  type OllamaSettings,
  ollamaSettings,
  SERVER_ENVIRONMENT,
  serverName,
} from "../../../src/engines/ollama/settings.ts";
import { hostAccelerator } from "../../../src/engines/registry.ts";
import { createRunCommand } from "../../../src/util/command.ts";
import { sha256Hex } from "../../../src/util/hash.ts";
import { createSerializer } from "../../../src/util/serializer.ts";
import { truncate } from "../../../src/util/text.ts";
import type { DaemonSpec, ModelReference } from "../../instances/daemon/spec.ts";
import type {
  EngineDriver,
  EngineHealth,
  EngineLaunch,
  EngineOptions,
  EngineTarget,
  HostEngine,
  ProbeOptions,
  RequestResult,
} from "../driver/engine.ts";
import { type Address, parseAddress } from "../driver/http.ts";
import { weightsIdentity } from "../driver/weights.ts";
import { askOfModel, errorIn, keepLoaded, ollamaApi, runningModels } from "./api.ts";
import { type OllamaConfig, ollamaConfig } from "./config.ts";
import { createModelSweep } from "./leftovers.ts";
import { type ComputedDigests, createModel, type ModelOrigin, requireLoadableFiles } from "./models.ts";
import { createOllamaFinder, detectOllama } from "./program.ts";
import { createPuller } from "./pull.ts";

/** Separate from the ports of engines, which the agent's configuration sets. */
const PORTS = [20_900, 20_999] as const;
/** One server does all pulls: two would write the same files. */
const PULLER = "ollama-pull";
const FOUND = "ollama-found";
const NEVER_EVICT = "1000";
const STALL_MS = 30_000;

export const ollamaEngine: HostEngine<OllamaConfig> = {
  runtime: "ollama",
  config: ollamaConfig,
  driver: ollamaDriver,
  find: ({ programs: paths, address }, { env }) =>
    address === undefined ? createOllamaFinder({ paths, env })() : detectOllama(parseAddress(address)),
};

function ollamaDriver(config: OllamaConfig, options: EngineOptions): EngineDriver {
  const { env, machine, instances } = options;
  const { daemons } = instances;
  const { found, find, adopted, started, fetcher, reference } = createServers(config, options);
  const accelerator = hostAccelerator(machine.platform);
  // Models that other clients loaded take memory even while no replica uses the server.
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
    claim: (settings, { gguf, projectorBytes }) => {
      if (gguf !== undefined)
        return ollamaClaims.estimate(gguf, { ...settings, projectorSizeBytes: projectorBytes }, accelerator);
      const message = "cannot estimate memory: the model has no GGUF file";
      throw new MetalbridgeError("ClaimUnknown", message);
    },
    // No readWork: Ollama reports no requests, and the gate counts them.
    probeHealth,
    probeRequest,
    readContextPerSlot,
    classifyExit: async (exit, logTail, run) =>
      classifyExit(exit, logTail, run, await isAppRunning(machine.platform, env)),
    ownLines,
    findDegraded,
  };
}

/** The Ollama servers of this host, and the models that they pull and load. */
function createServers(config: OllamaConfig, { env, machine, instances }: EngineOptions) {
  const { programs: paths, address, registry } = config;
  const find = createOllamaFinder({ paths, env });
  const found = address === undefined ? undefined : parseAddress(address);
  const home = join(instances.stateDir, "ollama");
  const models = found === undefined ? join(home, "models") : undefined;
  const blobs = models === undefined ? undefined : join(models, "blobs");
  const digests: ComputedDigests = new Map();
  const inTurn = createSerializer();
  const mark = sha256Hex(home);
  const adopted = (name: string): DaemonSpec => {
    // Under an earlier configuration the agent may have started servers.
    const foundServer = name === FOUND ? found : undefined;
    const api: DaemonSpec["api"] = (target) =>
      ollamaApi(target, inTurn, foundServer === undefined ? mark : undefined);
    return { name, api, found: foundServer };
  };
  const started = async (name: string, environment: OllamaSettings["environment"]): Promise<DaemonSpec> => {
    if (found !== undefined) return adopted(FOUND);
    const program = await find();
    if (program === undefined) throw notInstalled();
    await mkdir(join(home, "models", "blobs"), { recursive: true, mode: 0o700 });
    await writeFile(join(home, "models", "blobs", `sha256-${mark}`), "");
    const command = (port: number) => ({
      argv: [program.path, "serve"],
      env: { ...env, ...environment, ...serverEnvironment(home, port) },
    });
    return { ...adopted(name), start: { ports: PORTS, command } };
  };
  const during = async <T>(work: (address: Address) => Promise<T>): Promise<T> =>
    instances.daemons.during(await started(PULLER, {}), work);
  const stallMs = machine.sources?.stallMs ?? STALL_MS;
  const fetcher = createPuller({
    models,
    registry,
    stallMs,
    during,
    reserveBytes: machine.disk?.reserve ?? 0,
  });
  if (models !== undefined) instances.daemons.sweepBy(createModelSweep({ models, during, inTurn }));
  const reference = async (launch: EngineLaunch, settings: OllamaSettings): Promise<ModelReference> => {
    const { files, record } = launch;
    const { source } = launch.template.model;
    requireLoadableFiles(files);
    const origin: ModelOrigin = fetcher.takes(source) ? { from: pulledName(source, registry) } : { files };
    const weights = await weightsIdentity(files);
    const model = modelName("from" in origin ? `${origin.from} ${weights}` : weights, settings);
    const prepare: ModelReference["prepare"] = (target, signal) =>
      createModel(target, model, origin, settings, { blobs, digests, inTurn, signal });
    return { model, weights, record, prepare };
  };
  return { found, find, adopted, started, fetcher, reference };
}

/** The server gets its own folder, and only the agent changes which models are loaded. */
function serverEnvironment(home: string, port: number): Record<string, string> {
  return {
    HOME: home,
    OLLAMA_HOST: `127.0.0.1:${port}`,
    OLLAMA_MODELS: join(home, "models"),
    OLLAMA_MAX_LOADED_MODELS: NEVER_EVICT,
    ...SERVER_ENVIRONMENT,
  };
}

function notInstalled(): MetalbridgeError {
  const message = "ollama was not found in the configured locations or on PATH";
  const remedy = { summary: "install it on the host", command: "brew install ollama" };
  return new MetalbridgeError("RuntimeNotInstalled", message, remedy);
}

/** Looks for the desktop app, whose process name begins with a capital letter. */
async function isAppRunning(
  platform: string | undefined,
  env: Readonly<Record<string, string>>,
): Promise<boolean> {
  if (platform !== "darwin") return false;
  return (await createRunCommand(env.PATH ?? "")("pgrep", ["-x", "Ollama"])) !== undefined;
}

const PROBE_TIMEOUT_MS = 2_000;
const REQUEST_TIMEOUT_MS = 30_000;

/**
 * Healthy: the server answers, has exactly this model in memory, and the model's own process answers the server. The last
 * check needs no slot and renews the model's keep-alive, which any client can shorten to a few idle minutes.
 */
async function probeHealth(
  target: EngineTarget,
  { timeoutMs = PROBE_TIMEOUT_MS }: ProbeOptions = {},
): Promise<EngineHealth> {
  const deadline = performance.now() + timeoutMs;
  const models = await runningModels(target, timeoutMs);
  if ("failed" in models) return { unhealthy: models.failed };
  const model = target.modelAlias ?? "";
  if (!models.some(({ name }) => name === model))
    return { unhealthy: `Ollama no longer has ${model} in memory` };
  return keepLoaded(target, model, { timeoutMs: Math.max(1, deadline - performance.now()) }).then(
    () => "healthy",
    (error: Error) => ({
      unhealthy: `Ollama answers, and its process for ${model} does not: ${error.message}`,
    }),
  );
}

/** One token, or one embedding. */
async function probeRequest(
  target: EngineTarget,
  { timeoutMs = REQUEST_TIMEOUT_MS, signal }: ProbeOptions = {},
): Promise<RequestResult> {
  const { host, port, mode, modelAlias: model } = target;
  const [path, body, requiredText] =
    mode === "embedding"
      ? ["/api/embed", { model, input: "Hi" }, '"embeddings"']
      : [
          "/api/chat",
          { model, stream: false, options: { num_predict: 1 }, messages: [{ role: "user", content: "Hi" }] },
          '"message"',
        ];
  const answer = await askOfModel({ host, port, path, body, timeoutMs, signal });
  if ("failed" in answer) return answer;
  if (answer.status === 200 && answer.body.includes(requiredText)) return "ok";
  return { failed: `HTTP ${answer.status}: ${truncate(errorIn(answer.body), 300)}` };
}

/** Undefined if this version of Ollama does not report it. */
async function readContextPerSlot(target: EngineTarget): Promise<number | undefined> {
  const models = await runningModels(target);
  if ("failed" in models) return undefined;
  return models.find(({ name }) => name === target.modelAlias)?.context_length;
}
