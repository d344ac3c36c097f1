/** llama-server as an engine: one process per replica. */

import { mkdirSync, writeFileSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { basename, join } from "node:path";
import type { EngineSettings } from "../../../src/api/engine-settings.ts";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { ClaimFiles, MemoryClaim } from "../../../src/engines/contract/claims.ts";
import { buildArgv } from "../../../src/engines/llamacpp/argv.ts";
import { llamaBench } from "../../../src/engines/llamacpp/bench.ts";
import { estimateClaim } from "../../../src/engines/llamacpp/claim/claim.ts";
import { COMPUTE_TABLES, type ComputeTable } from "../../../src/engines/llamacpp/claim/compute/table.ts";
import { parseDevices } from "../../../src/engines/llamacpp/devices.ts";
import { classifyExit, findDegraded } from "../../../src/engines/llamacpp/exit.ts";
import { ownLines } from "../../../src/engines/llamacpp/own-lines.ts";
import { isLoopback } from "../../../src/http/loopback.ts";
import type { ProcessInstances } from "../../instances/process/process-instance.ts";
import type { ModelFacts } from "../../store/types.ts";
import type { EngineDriver, EngineLaunch, EngineOptions, HostEngine } from "../driver/engine.ts";
import { findBeside, type ProgramOptions, runProgram } from "../driver/program.ts";
import { llamaServerConfig } from "./config.ts";
import {
  probeHealth,
  probeLive,
  probeRequest,
  readContextPerSlot,
  readEngineGauges,
  readProgress,
  readWork,
} from "./probe.ts";
import { createProgramFinder, type LlamaServerProgram } from "./program.ts";

const LOOPBACK = "127.0.0.1";
/** On a failed assertion ggml runs gdb or lldb on itself, which can take minutes for a large engine. */
const NO_DEBUGGER = { GGML_NO_BACKTRACE: "1" } as const;

/** The command of one engine, and all of its environment. */
export interface PreparedEngine {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export type LlamaServerDriver = ReturnType<typeof createLlamaServerDriver>;

export interface LlamaServerOptions extends ProgramOptions {
  readonly processes: ProcessInstances;
  /** Compute buffer sizes of this host, where they differ from the estimate. */
  readonly computeTable?: ComputeTable | undefined;
}

export const llamacppEngine: HostEngine<readonly string[]> = {
  runtime: "llamacpp",
  config: llamaServerConfig,
  driver: (paths, { env, machine, instances: { processes } }) =>
    createLlamaServerDriver({ env, paths, processes, computeTable: computeTableOf(machine) }),
  find: async (paths, search) => {
    const program = await createProgramFinder({ paths, ...search })();
    return program && { path: program.path, version: program.capabilities.version };
  },
};

/** Measured coefficients take precedence over those of the platform. */
function computeTableOf({ memory, platform }: EngineOptions["machine"]): ComputeTable | undefined {
  if (memory === undefined || platform === undefined) return undefined;
  if (memory.compute !== undefined)
    return { ...memory.compute, source: "the agent's configuration", inputCopies: 0, isMeasured: true };
  return platform === "darwin" ? COMPUTE_TABLES.metal : COMPUTE_TABLES.cpu;
}

export function createLlamaServerDriver(options: LlamaServerOptions) {
  const find = createProgramFinder(options);
  /** Writes the files that the engine reads into `dir`. Throws MetalbridgeError if the installed engine cannot honor the settings. */
  const prepare = async (launch: EngineLaunch, dir: string): Promise<PreparedEngine> =>
    prepareEngine(await withRealPath(await requireProgram(find, options)), launch, dir, options);
  return {
    runtime: "llamacpp",
    detect: async () => {
      const program = await find();
      return program && { name: "llama-server", version: program.capabilities.version, path: program.path };
    },
    prepare,
    open: async (place, launch) => {
      const { port, record, template } = launch;
      const target = { host: LOOPBACK, port, modelAlias: template.serviceName };
      return options.processes.open(place, { ...(await prepare(launch, place.dir)), record, target });
    },
    adopt: (place, { port, service }) =>
      options.processes.adopt(place, { host: LOOPBACK, port, modelAlias: service || undefined }),
    claim: (settings, model, draft, loraAdapters = []) => {
      const loraSizeBytes = loraAdapters.reduce((sum, adapter) => sum + adapter.sizeBytes, 0);
      return claimOf({ ...settings, loraSizeBytes }, model, draft, options.computeTable);
    },
    probeHealth,
    probeRequest,
    readWork,
    probeLive,
    readProgress,
    gauges: readEngineGauges,
    readContextPerSlot,
    devices: async () => {
      const program = await find().catch(() => "unknown" as const);
      if (program === undefined) return [];
      if (program === "unknown") return program;
      const answer = await runProgram(program.path, ["--list-devices"], options.env);
      return "failed" in answer ? "unknown" : (parseDevices(answer.text) ?? "unknown");
    },
    bench: {
      ...llamaBench,
      // Beside llama-server, because another build would measure another engine.
      find: async () => findBeside("llama-bench", (await requireProgram(find, options)).path),
      env: () => ({ ...options.env, ...NO_DEBUGGER }),
    },
    classifyExit,
    ownLines,
    findDegraded,
  } satisfies EngineDriver & { readonly prepare: unknown };
}

async function requireProgram(
  find: () => Promise<LlamaServerProgram | undefined>,
  { paths }: ProgramOptions,
): Promise<LlamaServerProgram> {
  const program = await find();
  if (program !== undefined) return program;
  const searched = paths.length === 0 ? "on PATH" : `at ${paths.join(", ")} or on PATH`;
  throw new MetalbridgeError("RuntimeNotInstalled", `llama-server was not found ${searched}`);
}

/**
 * Resolves links, because an upgrade may repoint one before the engine has loaded its last library. A link with another name
 * stays: a program may behave differently depending on the name it is started with.
 */
async function withRealPath(program: LlamaServerProgram): Promise<LlamaServerProgram> {
  const real = await realpath(program.path);
  return basename(real) === basename(program.path) ? { ...program, path: real } : program;
}

function claimOf(
  settings: EngineSettings & ClaimFiles,
  model: ModelFacts,
  draft: ModelFacts | undefined,
  table: ComputeTable | undefined,
): MemoryClaim {
  if (model.gguf === undefined || (draft !== undefined && draft.gguf === undefined)) {
    const message = "cannot estimate memory: the model has no GGUF file";
    throw new MetalbridgeError("ClaimUnknown", message);
  }
  const files = { projectorSizeBytes: model.projectorBytes, draft: draft?.gguf };
  return estimateClaim(model.gguf, { ...settings, ...files }, table);
}

/** Reports all problems in one message, so that users need not fix them one start at a time. */
function prepareEngine(
  program: LlamaServerProgram,
  launch: EngineLaunch,
  dir: string,
  { env }: ProgramOptions,
): PreparedEngine {
  const { template } = launch;
  const { loraAdapters = [] } = template;
  const { argv, problems } = buildArgv(
    {
      settings: template.engine,
      modelPath: launch.modelPath,
      mmprojPath: launch.mmprojPath,
      draftPath: launch.draftPath,
      loraAdapters: (launch.loraPaths ?? []).map((path, index) => ({
        path,
        scale: loraAdapters[index]?.scale ?? 1,
      })),
      ...filesFor(template.engine, dir),
      apiKeyFile: launch.apiKeyFile,
      hosts: isLoopback(launch.address) ? [LOOPBACK] : [LOOPBACK, launch.address],
      port: launch.port,
      aliases: [template.serviceName],
      gguf: template.model.gguf,
    },
    program.capabilities,
  );
  const first = problems[0];
  if (first === undefined) return { argv: [program.path, ...argv], env: { ...env, ...NO_DEBUGGER } };
  throw new MetalbridgeError(first.code, problems.map(({ field, why }) => `${field}: ${why}`).join("; "));
}

/** Each start rewrites the chat template; saved slots stay until the replica's folder is removed. */
function filesFor({ chatTemplate, slotSaveRestore }: EngineSettings, dir: string) {
  const [chatTemplatePath, slotSavePath] = [join(dir, "chat-template.jinja"), join(dir, "slots")];
  if (chatTemplate !== undefined) writeFileSync(chatTemplatePath, chatTemplate, { mode: 0o600 });
  if (slotSaveRestore === true) mkdirSync(slotSavePath, { recursive: true, mode: 0o700 });
  return {
    chatTemplatePath: chatTemplate === undefined ? undefined : chatTemplatePath,
    slotSavePath: slotSaveRestore === true ? slotSavePath : undefined,
  };
}
