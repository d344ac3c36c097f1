/** Finds llama-server on this machine, and reads its version and flags once per installed file. */

import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import {
  type Capabilities,
  findFlag,
  parseCapabilities,
} from "../../../src/engines/llamacpp/capabilities.ts";
import { truncate } from "../../../src/text.ts";

const ANSWER_TIMEOUT_MS = 5_000;
/** For the first run of an installed file, once more where it times out: after an upgrade macOS checks the file first. */
const FIRST_ANSWER_TIMEOUTS_MS = [10_000, 30_000];
const PROGRAM = "llama-server";
const NEEDED = ["--model", "--host", "--port", "--ctx-size", "--parallel", "--metrics"];

export interface Program {
  readonly path: string;
  readonly capabilities: Capabilities;
}

export interface ProgramOptions {
  /** Tried in order before PATH. */
  readonly paths: readonly string[];
  /** The environment that the program and its engines get; PATH is searched. */
  readonly env: Readonly<Record<string, string>>;
  /** How long the first run of an installed file may take, one try per entry. */
  readonly firstAnswerTimeoutsMs?: readonly number[];
}

type Output = { readonly text: string } | { readonly failed: string; readonly isLate: boolean };

/** Caches what a file answered until its path, size or modification time changes. */
export function createProgramFinder(options: ProgramOptions): () => Promise<Program | undefined> {
  let known: { readonly key: string; readonly program: Program } | undefined;
  return async () => {
    const found = await locate(options);
    if (found === undefined) return undefined;
    if (known?.key === found.key) return known.program;
    const capabilities = await readCapabilities(found.path, options);
    known = { key: found.key, program: { path: found.path, capabilities } };
    return known.program;
  };
}

/** Both outputs together: `--version` prints on one, `--help` on the other. */
export function runProgram(
  path: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  timeoutMs = ANSWER_TIMEOUT_MS,
): Promise<Output> {
  return new Promise((resolve) => {
    const options = { env, timeout: timeoutMs, killSignal: "SIGKILL", maxBuffer: 4 << 20 } as const;
    const child = execFile(path, args, options, (error, out, err) => {
      if (error === null) resolve({ text: `${out}\n${err}` });
      else if (error.killed)
        resolve({ failed: `${args[0]} did not answer within ${timeoutMs / 1000} s`, isLate: true });
      else
        resolve({
          failed: `${args[0]} ended with ${error.signal ?? error.code}: ${firstLine(err || error.message)}`,
          isLate: false,
        });
    });
    child.stdin?.end();
  });
}

/** A configured path that is not executable is an error; on PATH it is skipped. */
async function locate({ paths, env }: ProgramOptions): Promise<{ path: string; key: string } | undefined> {
  const inPath = (env.PATH ?? "").split(delimiter).filter((folder) => isAbsolute(folder));
  for (const path of [...paths, ...inPath.map((folder) => join(folder, PROGRAM))]) {
    const file = await stat(path).catch(() => undefined);
    if (file?.isFile() !== true) continue;
    if (await isExecutable(path)) return { path, key: `${path} ${file.size} ${file.mtimeMs}` };
    if (paths.includes(path)) throw new MetalbridgeError("RuntimeNotExecutable", `${path} is not executable`);
  }
  return undefined;
}

function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

async function readCapabilities(path: string, options: ProgramOptions): Promise<Capabilities> {
  const { env } = options;
  const version = await readVersion(path, options);
  if ("failed" in version) throw new MetalbridgeError("RuntimeBroken", `${path} ${version.failed}`);
  const help = await runProgram(path, ["--help"], env);
  if ("failed" in help) throw new MetalbridgeError("RuntimeBroken", `${path} ${help.failed}`);
  const capabilities = parseCapabilities(help.text, version.text);
  if (capabilities.flags.size === 0) {
    throw new MetalbridgeError("RuntimeBroken", `${path} --help lists no arguments: is it llama-server?`);
  }
  refuseTooOld(path, capabilities);
  return capabilities;
}

async function readVersion(path: string, { env, firstAnswerTimeoutsMs }: ProgramOptions): Promise<Output> {
  let answer: Output = { failed: "--version was not tried", isLate: true };
  for (const timeoutMs of firstAnswerTimeoutsMs ?? FIRST_ANSWER_TIMEOUTS_MS) {
    answer = await runProgram(path, ["--version"], env, timeoutMs);
    if ("text" in answer || !answer.isLate) break;
  }
  return answer;
}

/** What every replica needs; anything else is a matter of single settings. */
function refuseTooOld(path: string, capabilities: Capabilities): void {
  const missing = NEEDED.filter((name) => findFlag(capabilities, name) === undefined);
  const hosts = findFlag(capabilities, "--host")?.description ?? "";
  if (missing.length === 0 && !hosts.includes("comma-separated"))
    missing.push("--host with several addresses");
  if (missing.length === 0) return;
  throw new MetalbridgeError(
    "RuntimeTooOld",
    `${path} is version ${capabilities.version}, which lacks ${missing.join(", ")}`,
  );
}

function firstLine(text: string): string {
  return truncate(text.trim().split("\n")[0] ?? "", 300);
}
