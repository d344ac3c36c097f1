/** Packages of the Python registry, each with a virtual environment of its own in the cache. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { cacheDir } from "../../scripts/setup/cache.mjs";
import { findOnPath, run } from "../../scripts/setup/command.mjs";

const INSTALL_MS = 900_000;

export interface PythonPackage {
  readonly name: string;
  readonly version: string;
  /** File with the package and everything that it needs: dependencies are not resolved. */
  readonly requirements: string;
  /** How much is downloaded, for people. */
  readonly size: string;
  /** Commands after the installation: a program of the environment, and its arguments. */
  readonly finish: readonly (readonly [string, ...string[]])[];
}

/** Installs it once. A text: why it cannot be had here. */
export async function ensurePythonPackage(
  { name, version, requirements, size, finish }: PythonPackage,
  note: (text: string) => void,
): Promise<{ readonly bin: string } | string> {
  const folder = path.join(cacheDir(), name, version);
  const bin = path.join(folder, "bin");
  const whole = `${folder}.whole`;
  if (existsSync(whole)) return { bin };
  const python = findOnPath("python3");
  if (python === undefined) return "there is no python3 on PATH";
  note(`pip install ${name} into the cache: ${size}, under a minute on a fast network`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(path.dirname(folder), { recursive: true });
  const commands = [
    [python, "-m", "venv", folder],
    ["pip", "install", "--quiet", "--no-cache-dir", "--no-deps", "--no-compile", "-r", requirements],
    ...finish,
  ] as const;
  for (const [program, ...args] of commands) {
    const { code, tail } = await run(path.resolve(bin, program), args, { timeoutMs: INSTALL_MS });
    if (code !== 0) return tail.split("\n").at(-1) ?? "";
  }
  writeFileSync(whole, "");
  return { bin };
}
