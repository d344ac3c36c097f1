/** A release as a folder: bundle, pinned Node and launcher, with the SHA-256 of each file in release.json. */
import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { MANIFEST, type ReleaseManifest } from "../../launchd/release/manifest.ts";
import { sha256Hex } from "../../src/util/hash.ts";
import { root } from "../project/root.ts";

export interface ReleaseInput {
  readonly version: string;
  /** Such as darwin-arm64. */
  readonly platform: string;
  /** The program, and its version. */
  readonly node: { readonly file: string; readonly version: string };
  /** What esbuild wrote. */
  readonly bundle: string;
  /** Replaces the program, in tests of releases that do not work. */
  readonly program?: string | undefined;
}

/**
 * Follows links, such as /usr/local/bin/metalbridge, to the version that they name now. Some verbs give up root's rights for
 * those of the agent's account, whose code could then open Node's inspector in them with SIGUSR1.
 */
const LAUNCHER = `#!/bin/sh
program=$0
case \${0##*/} in llmfit-cluster-fit) set -- cluster-fit --output=json "$@" ;; esac
while [ -h "$program" ]; do
  link=$(readlink "$program")
  case $link in
    /*) program=$link ;;
    *) program=$(dirname "$program")/$link ;;
  esac
done
folder=$(cd -P "$(dirname "$program")/.." && pwd) || exit 1
exec "$folder/bin/node" --disable-sigusr1 "$folder/cli/metalbridge.mjs" "$@"
`;

const LAUNCHERS = ["bin/metalbridge", "bin/llmfit-cluster-fit"];

/** What the program reads besides its code. */
const COPIED = ["cli/metalbridge.mjs", "LICENSE", "examples/quickstart", "catalog"];

/** Its native part is built for each platform, so it is not in the bundle. */
const NATIVE_MODULE = "node_modules/node-pty";

/** Fills an empty folder. */
export function fillRelease(
  folder: string,
  { version, platform, node, bundle, program }: ReleaseInput,
): ReleaseManifest {
  for (const name of COPIED) cpSync(path.join(root, name), path.join(folder, name), { recursive: true });
  cpSync(bundle, path.join(folder, "dist"), { recursive: true });
  for (const name of ["package.json", "LICENSE", "lib", `prebuilds/${platform}`]) {
    const place = path.join(NATIVE_MODULE, name);
    cpSync(path.join(root, place), path.join(folder, place), { recursive: true });
  }
  mkdirSync(path.join(folder, "bin"), { recursive: true });
  copyFileSync(node.file, path.join(folder, "bin", "node"));
  for (const name of LAUNCHERS) writeFileSync(path.join(folder, name), LAUNCHER);
  if (program !== undefined) writeFileSync(path.join(folder, "cli", "metalbridge.mjs"), program);
  for (const name of ["bin/node", ...LAUNCHERS, "cli/metalbridge.mjs"])
    chmodSync(path.join(folder, name), 0o755);
  writeFileSync(path.join(folder, "package.json"), packageJson(version));
  const manifest = { version, platform, node: node.version, files: sumsIn(folder) };
  writeFileSync(path.join(folder, MANIFEST), `${JSON.stringify(manifest, undefined, 2)}\n`);
  return manifest;
}

/** Every regular file below the folder but release.json, sorted by path. */
export function filesIn(folder: string): readonly string[] {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return names.filter((name) => name !== MANIFEST && statSync(path.join(folder, name)).isFile()).sort();
}

function sumsIn(folder: string): Record<string, string> {
  const sum = (name: string) => sha256Hex(readFileSync(path.join(folder, name)));
  return Object.fromEntries(filesIn(folder).map((name) => [name, sum(name)]));
}

function packageJson(version: string): string {
  const { name, description, license, type } = JSON.parse(
    readFileSync(path.join(root, "package.json"), "utf8"),
  ) as Record<string, string>;
  return `${JSON.stringify({ name, version, description, license, type }, undefined, 2)}\n`;
}
