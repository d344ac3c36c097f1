/** A separate installation, as users have it: edits of the sources do not change it. */
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { packageRoot } from "../../local/package-root.ts";
import { bundleInto } from "../../scripts/bundle/bundle.ts";
import { bundleIsFresh } from "../../scripts/setup/bundle.mjs";

const DIST = path.join(packageRoot(), "dist");

export interface Release {
  readonly version: string;
  readonly program: string;
}

/** A copy of `bundle`, by default of `dist/`, in `dir`; it reports `version`. */
export function installRelease(dir: string, version: string, bundle = DIST): Release {
  if (!existsSync(path.join(bundle, "metalbridge.mjs"))) throw new Error("there is no dist/: npm run build");
  const program = programIn(dir);
  mkdirSync(path.dirname(program), { recursive: true });
  cpSync(bundle, path.join(dir, "dist"), { recursive: true });
  cpSync(programIn(packageRoot()), program);
  cpSync(path.join(packageRoot(), "catalog"), path.join(dir, "catalog"), { recursive: true });
  const manifest = JSON.parse(readFileSync(path.join(packageRoot(), "package.json"), "utf8"));
  writeFileSync(path.join(dir, "package.json"), JSON.stringify({ ...manifest, version }));
  return { version, program };
}

/** `dist/`, where it is of these sources, else a bundle in `folder`. */
export async function freshBundle(folder: string): Promise<string> {
  if (process.env.METALBRIDGE_USE_BUNDLE !== undefined || bundleIsFresh(packageRoot())) return DIST;
  await bundleInto(folder);
  return folder;
}

/** Of an installation in `dir`, this checkout among them. */
export function programIn(dir: string): string {
  return path.join(dir, "cli", "metalbridge.mjs");
}
