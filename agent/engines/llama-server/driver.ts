/** llama-server as an engine: one process per replica. */
import { buildArgv } from "../../../src/engines/llama-server/argv.ts";
import type { ArgvProblem } from "../../../src/engines/llama-server/argv-builder.ts";
import { parseDevices } from "../../../src/engines/llama-server/devices.ts";
import { classifyExit, findDegraded } from "../../../src/engines/llama-server/exit.ts";
import { MetalbridgeError } from "../../../src/errors.ts";
import type { EngineDriver, EngineLaunch, PreparedEngine } from "../engine.ts";
import { isLoopback } from "../ports.ts";
import {
  probeHealth,
  probeLive,
  probeRequest,
  readContextPerSlot,
  readEngineGauges,
  readProgress,
  readWork,
} from "./probe.ts";
import { createProgramFinder, type Program, type ProgramOptions, runProgram } from "./program.ts";

const LOOPBACK = "127.0.0.1";
/** At a failed assertion ggml runs gdb or lldb on itself, which can take minutes of a large engine. */
const NO_DEBUGGER = { GGML_NO_BACKTRACE: "1" } as const;

export function createLlamaServerDriver(options: ProgramOptions): EngineDriver {
  const find = createProgramFinder(options);
  return {
    runtime: "llamacpp",
    detect: async () => {
      const program = await find();
      return program === undefined
        ? undefined
        : { name: "llama-server", version: program.capabilities.version, path: program.path };
    },
    prepare: async (launch) => prepare(await required(find, options), launch, options),
    probeHealth,
    probeRequest,
    readWork,
    probeLive,
    readProgress,
    gauges: readEngineGauges,
    facts: async (target) => {
      const contextPerSlot = await readContextPerSlot(target);
      return contextPerSlot === undefined ? {} : { contextPerSlot };
    },
    devices: async () => {
      const program = await find().catch(() => undefined);
      if (program === undefined) return "unknown";
      const answer = await runProgram(program.path, ["--list-devices"], options.env);
      return "failed" in answer ? "unknown" : (parseDevices(answer.text) ?? "unknown");
    },
    classifyExit,
    findDegraded,
  };
}

async function required(
  find: () => Promise<Program | undefined>,
  { paths }: ProgramOptions,
): Promise<Program> {
  const program = await find();
  if (program !== undefined) return program;
  const looked = paths.length === 0 ? "on PATH" : `at ${paths.join(", ")} or on PATH`;
  throw new MetalbridgeError("RuntimeNotInstalled", `llama-server was not found ${looked}`);
}

/** All problems in one message: who mends one should not find the next only after another start. */
function prepare(program: Program, launch: EngineLaunch, { env }: ProgramOptions): PreparedEngine {
  const { template } = launch;
  const { argv, problems } = buildArgv(
    {
      settings: template.engine,
      modelPath: launch.modelPath,
      ...(launch.mmprojPath === undefined ? {} : { mmprojPath: launch.mmprojPath }),
      ...(launch.draftPath === undefined ? {} : { draftPath: launch.draftPath }),
      ...(launch.apiKeyFile === undefined ? {} : { apiKeyFile: launch.apiKeyFile }),
      hosts: isLoopback(launch.address) ? [LOOPBACK] : [LOOPBACK, launch.address],
      port: launch.port,
      aliases: [template.serviceName],
      ...(template.model.gguf === undefined ? {} : { gguf: template.model.gguf }),
    },
    program.capabilities,
  );
  const first = problems[0];
  if (first === undefined) return { argv: [program.path, ...argv], env: { ...env, ...NO_DEBUGGER } };
  throw new MetalbridgeError(first.code, problems.map(describe).join("; "));
}

function describe({ field, why }: ArgvProblem): string {
  return `${field}: ${why}`;
}
