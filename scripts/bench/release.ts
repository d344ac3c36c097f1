/** An installation of its own, made from the sources as they are now: what users run, and nothing that changes meanwhile. */
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { packageRoot } from "../../cli/program/package-root.ts";
import { bundleInto } from "../bundle.ts";

/** Bundle, start program and package.json into `dir`; resolves with the program. It says another version if one is given. */
export async function installRelease(dir: string, version?: string): Promise<string> {
  await mkdir(path.join(dir, "cli"), { recursive: true });
  await bundleInto(path.join(dir, "dist"));
  await copyFile(
    path.join(packageRoot(), "cli", "metalbridge.mjs"),
    path.join(dir, "cli", "metalbridge.mjs"),
  );
  const manifest: object = JSON.parse(await readFile(path.join(packageRoot(), "package.json"), "utf8"));
  const said = version === undefined ? manifest : { ...manifest, version };
  await writeFile(path.join(dir, "package.json"), JSON.stringify(said));
  return path.join(dir, "cli", "metalbridge.mjs");
}
