/** oMLX as an engine: a shared server, started by the agent or found running, with a folder of models. */
import { randomBytes } from "node:crypto";
import { link, mkdir, readFile, readlink, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import type { Mode } from "../../../src/api/engine-settings.ts";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { HOST_ENGINE_INSTALLS } from "../../../src/api/fields/runtimes.ts";
import { mlxBench } from "../../../src/engines/omlx/bench.ts";
import { omlxClaims } from "../../../src/engines/omlx/claims.ts";
import { classifyExit, ownLines } from "../../../src/engines/omlx/exit.ts";
import {
  modelName,
  type OmlxSettings,
  omlxSettings,
  serverName,
} from "../../../src/engines/omlx/settings.ts";
import { hostAccelerator } from "../../../src/engines/registry.ts";
import { ifExists, systemCode, writeFileAtomic } from "../../../src/util/atomic-file.ts";
import { parseJson } from "../../../src/util/parse-json.ts";
import { createSerializer } from "../../../src/util/serializer.ts";
import { truncate } from "../../../src/util/text.ts";
import type { DaemonSpec, ModelReference } from "../../instances/daemon/spec.ts";
import { resolveInside } from "../../store/in-place.ts";
import type { StoredFile } from "../../store/types.ts";
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
import { parseAddress } from "../driver/http.ts";
import { findBeside } from "../driver/program.ts";
import { weightsIdentity } from "../driver/weights.ts";
import { callOmlx, errorIn, omlxApi, readStatus, register } from "./api.ts";
import { type OmlxConfig, omlxConfig } from "./config.ts";
import { createOmlxFinder, detectOmlx, type OmlxProgram, rejectUnknownFlags } from "./program.ts";

/** Separate from the ports of other daemons, and of engines, which the agent's configuration sets. */
const PORTS = [20_800, 20_899] as const;
const FOUND = "omlx-found";
const GIB = 1024 ** 3;
/** The guard's soft watermark as a share of its ceiling, which oMLX takes in GiB: omlx/process_memory_enforcer.py. */
const SOFT_SHARE = 0.85;

export const omlxEngine: HostEngine<OmlxConfig> = {
  runtime: "omlx",
  config: omlxConfig,
  driver: omlxDriver,
  find: ({ programs: paths }, { env }) => createOmlxFinder({ paths, env })(),
  selftestName: "oMLX",
};

function omlxDriver(config: OmlxConfig, options: EngineOptions): EngineDriver {
  const { daemons } = options.instances;
  const accelerator = hostAccelerator(options.machine.platform);
  const { found, find, adopted, started, reference } = createServers(config, options);
  // Models that other clients loaded take memory even while no replica uses the server.
  if (found !== undefined) daemons.watch(adopted(FOUND));
  return {
    runtime: "omlx",
    gate: "openai",
    detect: () => (found === undefined ? find() : detectOmlx(found)),
    open: async (place, launch) => {
      const { engine, model } = launch.template;
      const settings = omlxSettings(engine, model.gguf);
      await checkCacheFolder(engine.pagedSSDCacheDir, config.cacheRoots);
      const spec = await started(settings);
      return daemons.open(place, spec, await reference(launch, settings, spec.name));
    },
    adopt: async (place, { record }) =>
      typeof record.daemon === "string" ? daemons.adopt(place, adopted(record.daemon), record) : undefined,
    claim: (settings, { gguf: summary }) => {
      if (summary !== undefined) return omlxClaims.estimate(summary, settings, accelerator);
      const message = "cannot estimate memory: the model is not a folder with config.json and safetensors";
      throw new MetalbridgeError("ClaimUnknown", message);
    },
    claimBasis: () => "config.json of the model and the size of its safetensors",
    // No readWork: oMLX counts the requests of all models together, and the gate counts those of each.
    probeHealth,
    probeRequest,
    readContextPerSlot,
    bench: {
      ...mlxBench,
      find: async (files) => {
        // mlx_lm.benchmark always runs the Python code of a tokenizer.
        const code = files.find(({ name }) => name.endsWith(".py"))?.name;
        if (code !== undefined)
          throw new MetalbridgeError(
            "BenchmarkNotSupported",
            `the model has Python code (${code}), which mlx_lm.benchmark would run`,
          );
        const program = await find();
        return findBeside("mlx_lm.benchmark", program?.path, options.env, ["../libexec/bin"]);
      },
      // An empty cache: code that the tokenizer names in another repository is not found.
      env: (dir) => ({ ...options.env, HF_HOME: dir, HF_HUB_OFFLINE: "1", TRANSFORMERS_OFFLINE: "1" }),
    },
    classifyExit,
    ownLines,
  };
}

/** The oMLX servers of this host, and the models in their folders. */
function createServers(config: OmlxConfig, { env, instances, memoryBudget }: EngineOptions) {
  const { programs: paths, address, keyFile, basePath, modelDir } = config;
  const find = createOmlxFinder({ paths, env });
  const found = address === undefined ? undefined : { ...parseAddress(address), keyFile };
  const home = join(instances.stateDir, "omlx");
  const ownKey = join(home, "key");
  const folders = new Map<string, OmlxModelFolder>();
  const folderOf = (name: string): OmlxModelFolder => {
    const isFound = found !== undefined && name === FOUND;
    const base = (isFound ? basePath : undefined) ?? join(home, name);
    const folder =
      folders.get(name) ?? modelFolder(base, (isFound ? modelDir : undefined) ?? join(base, "models"));
    folders.set(name, folder);
    return folder;
  };
  const adopted = (name: string): DaemonSpec => {
    const { dir, forget } = folderOf(name);
    // Under an earlier configuration the agent may have started servers.
    if (found !== undefined && name === FOUND)
      return { name, found, isOneProcess: true, api: (target) => omlxApi(target, { forget }) };
    const api: DaemonSpec["api"] = (target) => omlxApi(target, { modelDir: dir, forget });
    return { name, keyFile: ownKey, isOneProcess: true, api };
  };
  const started = async (settings: OmlxSettings): Promise<DaemonSpec> => {
    if (found !== undefined) return adopted(FOUND);
    const program = await find();
    if (program === undefined) throw notInstalled();
    rejectUnknownFlags(program, settings.flags);
    const spec = adopted(serverName(settings));
    const base = join(home, spec.name);
    const command = async (port: number) => {
      // oMLX saves the flags of every start, and loads the pinned models of the previous one.
      await rm(base, { recursive: true, force: true });
      await mkdir(folderOf(spec.name).dir, { recursive: true, mode: 0o700 });
      const paths = ["--base-path", base, "--model-dir", folderOf(spec.name).dir, "--no-hf-cache"];
      const flags = [...paths, "--host", "127.0.0.1", "--port", String(port)];
      return {
        argv: [program.path, "serve", ...flags, ...guardFlags(memoryBudget(), program), ...settings.flags],
        env: { ...env, HOME: base, HF_HUB_OFFLINE: "1", OMLX_API_KEY: await readOrCreateKey(ownKey) },
      };
    };
    return { ...spec, start: { ports: PORTS, command } };
  };
  const reference = async (
    { files, record }: EngineLaunch,
    settings: OmlxSettings,
    daemon: string,
  ): Promise<ModelReference> => {
    const model = modelName(await weightsIdentity(files), settings);
    return {
      model,
      record,
      prepare: async (target, signal) => {
        const folder = folderOf(daemon);
        await folder.place(model, files);
        const placeStub = () => folder.placeStub(model);
        await register(target, model, { settings: settings.model, placeStub }, signal);
      },
    };
  };
  return { found, find, adopted, started, reference };
}

/** The budget is the guard's soft watermark, above which oMLX accepts no new requests; pins keep it from evicting models. */
function guardFlags(budgetBytes: number | undefined, { flags }: OmlxProgram): readonly string[] {
  const guard = ["--memory-guard", "aggressive"];
  if (budgetBytes === undefined || !flags.has("--memory-guard-gb")) return guard;
  return [...guard, "--memory-guard-gb", (budgetBytes / SOFT_SHARE / GIB).toFixed(1)];
}

/** The key of the servers that the agent starts: created once, so that the next agent has it too, and linked once complete. */
async function readOrCreateKey(path: string): Promise<string> {
  const key = randomBytes(32).toString("hex");
  const temporary = `${path}.${key.slice(0, 8)}`;
  await writeFile(temporary, `${key}\n`, { mode: 0o600, flag: "wx" });
  try {
    await link(temporary, path);
    return key;
  } catch (error) {
    if (systemCode(error) !== "EEXIST") throw error;
    return (await readFile(path, "utf8")).trim();
  } finally {
    await rm(temporary);
  }
}

/** Services choose the folder, so this host must allow it. */
async function checkCacheFolder(folder: string | undefined, roots: readonly string[]): Promise<void> {
  if (folder === undefined) return;
  const real = await ifExists(resolveInside(folder, roots));
  const setting = `pagedSSDCacheDir: ${folder}`;
  if (real === undefined)
    throw new MetalbridgeError("SettingUnavailable", `${setting} does not exist on this host`);
  if (real === "outside")
    throw new MetalbridgeError("EngineSettingsRefused", `${setting} is not in omlx.cacheRoots of this host`);
}

function notInstalled(): MetalbridgeError {
  const message = "omlx was not found in the configured locations, on PATH or in /Applications";
  const remedy = { summary: "install it on the host", command: HOST_ENGINE_INSTALLS.omlx };
  return new MetalbridgeError("RuntimeNotInstalled", message, remedy);
}

/** Links models of the agent's store into a server's folder, each under its own name. */
interface OmlxModelFolder {
  readonly dir: string;
  readonly place: (model: string, files: readonly StoredFile[]) => Promise<void>;
  /** Creates an empty model next to it, and returns the stub's name. */
  readonly placeStub: (model: string) => Promise<string>;
  /** Removes the model, its stub, and the settings that the server has stored for it. */
  readonly forget: (model: string) => Promise<void>;
}

const SETTINGS_FILE = "model_settings.json";
const settingsSchema = z.looseObject({ models: z.record(z.string(), z.unknown()) });
const STUB = "-stub";

/** Settings of models that other clients use stay unchanged. */
function modelFolder(basePath: string, dir: string): OmlxModelFolder {
  // Changes are serialized: each one writes the whole file.
  const inTurn = createSerializer();
  const forgetSettings = (model: string): Promise<void> =>
    inTurn(async () => {
      const path = join(basePath, SETTINGS_FILE);
      const before = await readSettings(path);
      if (before === undefined || !Object.hasOwn(before.models, model)) return;
      const { [model]: _, ...models } = before.models;
      await writeFileAtomic(path, `${JSON.stringify({ ...before, models }, undefined, 2)}\n`);
    });
  return {
    dir,
    place: (model, files) => linkFiles(join(dir, model), files),
    placeStub: async (model) => {
      const name = `${model}${STUB}`;
      await mkdir(join(dir, name), { recursive: true, mode: 0o700 });
      await writeFile(join(dir, name, "config.json"), "{}\n");
      return name;
    },
    forget: async (model) => {
      for (const name of [model, `${model}${STUB}`])
        await rm(join(dir, name), { recursive: true, force: true });
      await forgetSettings(model);
    },
  };
}

/** Links instead of copies: the store keeps the files while a replica uses them. */
async function linkFiles(folder: string, files: readonly StoredFile[]): Promise<void> {
  const links = await Promise.all(
    files.map(async ({ name, path }) => ({ name: join(folder, name), target: await realpath(path) })),
  );
  const targets = await Promise.all(links.map(({ name }) => readlink(name).catch(() => undefined)));
  if (links.every(({ target }, index) => targets[index] === target)) return;
  await rm(folder, { recursive: true, force: true });
  for (const { name, target } of links) {
    await mkdir(dirname(name), { recursive: true, mode: 0o700 });
    await symlink(target, name);
  }
}

async function readSettings(path: string): Promise<z.output<typeof settingsSchema> | undefined> {
  const text = await ifExists(readFile(path, "utf8"));
  if (text === undefined) return undefined;
  const parsed = settingsSchema.safeParse(parseJson(text));
  if (!parsed.success) throw new Error(`${path} was not written by oMLX; it is left unchanged`);
  return parsed.data;
}

const PROBE_TIMEOUT_MS = 2_000;
const REQUEST_TIMEOUT_MS = 30_000;

/** Healthy: the server answers, and has exactly this model in memory. */
async function probeHealth(
  target: EngineTarget,
  { timeoutMs = PROBE_TIMEOUT_MS }: ProbeOptions = {},
): Promise<EngineHealth> {
  const status = await readStatus(target, timeoutMs);
  if ("failed" in status) return { unhealthy: status.failed };
  const model = status.models.find(({ id }) => id === target.modelAlias);
  if (model?.loaded === true) return "healthy";
  if (model?.is_loading === true) return "loading";
  return { unhealthy: `oMLX no longer has ${target.modelAlias} in memory` };
}

const PROBES: Readonly<Record<Mode, readonly [path: string, body: object, requiredText: string]>> = {
  chat: ["/v1/chat/completions", { max_tokens: 1, messages: [{ role: "user", content: "Hi" }] }, '"choices"'],
  embedding: ["/v1/embeddings", { input: "Hi" }, '"data"'],
  rerank: ["/v1/rerank", { query: "Hi", documents: ["Hi"] }, '"results"'],
};

/** One token, one embedding, or one document. */
async function probeRequest(
  target: EngineTarget,
  { timeoutMs = REQUEST_TIMEOUT_MS, signal }: ProbeOptions = {},
): Promise<RequestResult> {
  const [path, extra, requiredText] = PROBES[target.mode];
  const body = { model: target.modelAlias, ...extra };
  const answer = await callOmlx(target, { path, body, timeoutMs, signal });
  if ("failed" in answer) return answer;
  if (answer.status === 200 && answer.body.includes(requiredText)) return "ok";
  return { failed: `HTTP ${answer.status}: ${truncate(errorIn(answer.body), 300)}` };
}

/** Undefined if the server does not report it. */
async function readContextPerSlot(target: EngineTarget): Promise<number | undefined> {
  const status = await readStatus(target);
  if ("failed" in status) return undefined;
  return status.models.find(({ id }) => id === target.modelAlias)?.max_context_window ?? undefined;
}
