/** oMLX as an engine: a shared server, started by the agent or found running, with a folder of models. */
import { randomBytes } from "node:crypto";
import { link, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
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
import { ifExists, systemCode } from "../../../src/util/atomic-file.ts";
import { resolveInside } from "../../config/fields/allowed-roots.ts";
import type { DaemonSpec, ModelReference } from "../../instances/daemon/spec.ts";
import type { EngineDriver, EngineLaunch, EngineOptions, HostEngine } from "../engine.ts";
import { parseAddress } from "../io/http.ts";
import { findBeside } from "../io/program.ts";
import { weightsIdentity } from "../io/weights.ts";
import { omlxApi, register } from "./api.ts";
import { type OmlxConfig, omlxConfig } from "./config.ts";
import { modelFolder, type OmlxModelFolder } from "./models.ts";
import { probeHealth, probeRequest, readContextPerSlot } from "./probe.ts";
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
