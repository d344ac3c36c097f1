/** Two installations of the program as it is now, under two version numbers: what an upgrade goes between. */
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { packageRoot } from "../../../cli/program/package-root.ts";

export interface Release {
  readonly version: string;
  readonly program: string;
}

/** Copies, so that nothing changes under the run while somebody works on the sources. */
export function installReleases(dir: string): readonly [Release, Release] {
  const root = packageRoot();
  if (!existsSync(path.join(root, "dist", "metalbridge.mjs"))) {
    throw new Error("there is no dist/: npm run build");
  }
  return [
    install(path.join(dir, "old"), "0.1.0-torture.1"),
    install(path.join(dir, "new"), "0.1.0-torture.2"),
  ];
}

function install(dir: string, version: string): Release {
  const root = packageRoot();
  mkdirSync(path.join(dir, "cli"), { recursive: true });
  cpSync(path.join(root, "dist"), path.join(dir, "dist"), { recursive: true });
  cpSync(path.join(root, "cli", "metalbridge.mjs"), path.join(dir, "cli", "metalbridge.mjs"));
  const manifest = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
  writeFileSync(path.join(dir, "package.json"), JSON.stringify({ ...manifest, version }));
  return { version, program: path.join(dir, "cli", "metalbridge.mjs") };
}
