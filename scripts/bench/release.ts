/** An installation of its own, made from the sources as they are now: what users run, and nothing that changes meanwhile. */
import { copyFile, mkdir } from "node:fs/promises";
import path from "node:path";
import { packageRoot } from "../../cli/program/package-root.ts";
import { bundleInto } from "../bundle.ts";

/** Bundle, start program and package.json into `dir`; resolves with the program. */
export async function installRelease(dir: string): Promise<string> {
  await mkdir(path.join(dir, "cli"), { recursive: true });
  await bundleInto(path.join(dir, "dist"));
  for (const file of ["package.json", "cli/metalbridge.mjs"])
    await copyFile(path.join(packageRoot(), file), path.join(dir, file));
  return path.join(dir, "cli", "metalbridge.mjs");
}
