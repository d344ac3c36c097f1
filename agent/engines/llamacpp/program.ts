/** Finds llama-server on this machine, and reads its version and flags once per installed file. */

import { MetalbridgeError } from "../../../src/api/errors.ts";
import {
  type Capabilities,
  findFlag,
  parseCapabilities,
} from "../../../src/engines/llamacpp/capabilities.ts";
import {
  cacheByFile,
  locateProgram,
  type ProgramOptions,
  runProgram,
  runVersionCommand,
} from "../driver/program.ts";

const PROGRAM = "llama-server";
const REQUIRED_FLAGS = ["--model", "--host", "--port", "--ctx-size", "--parallel", "--metrics"];

export interface LlamaServerProgram {
  readonly path: string;
  readonly capabilities: Capabilities;
}

export function createProgramFinder(options: ProgramOptions): () => Promise<LlamaServerProgram | undefined> {
  return cacheByFile(
    () => locateProgram(PROGRAM, options),
    async (path) => ({ path, capabilities: await readCapabilities(path, options) }),
  );
}

async function readCapabilities(path: string, options: ProgramOptions): Promise<Capabilities> {
  const { env, as } = options;
  const broken = (reason: string) => new MetalbridgeError("RuntimeBroken", `${path} ${reason}`);
  const version = await runVersionCommand(path, options);
  if ("failed" in version) throw broken(version.failed);
  const help = await runProgram(path, ["--help"], env, { as });
  if ("failed" in help) throw broken(help.failed);
  const capabilities = parseCapabilities(help.text, version.text);
  if (capabilities.flags.size === 0) throw broken("--help lists no arguments: is it llama-server?");
  requireNewEnough(path, capabilities);
  return capabilities;
}

/** Checks only the flags that every replica requires; others are checked with the settings that use them. */
function requireNewEnough(path: string, capabilities: Capabilities): void {
  const missing = REQUIRED_FLAGS.filter((name) => findFlag(capabilities, name) === undefined);
  const hosts = findFlag(capabilities, "--host")?.description ?? "";
  if (missing.length === 0 && !hosts.includes("comma-separated"))
    missing.push("--host with several addresses");
  if (missing.length === 0) return;
  throw new MetalbridgeError(
    "RuntimeTooOld",
    `${path} is version ${capabilities.version}, which lacks ${missing.join(", ")}`,
  );
}
