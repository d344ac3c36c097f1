/** The Debian packages of our own image: pinned by hash in debian.lock.json, fetched from a mirror or from Debian's snapshots. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { sha256Hex } from "../../src/util/hash.ts";
import { ReleaseError } from "../project/release-error.ts";
import { run } from "../setup/command.mjs";
import { download } from "../setup/download.mjs";
import { findDebianMirror, readAptSources } from "../setup/llama/apt-sources.mjs";
import { imagesCache } from "./cache.ts";

export type DebianArchitecture = "amd64" | "arm64";
export const DEBIAN_ARCHITECTURES: readonly DebianArchitecture[] = ["amd64", "arm64"];

/** Stable, for as long as Debian supports it. */
export const SUITE = "trixie";

/** The C and C++ libraries that Node is linked with, and the files that programs expect of a system. No dependencies besides. */
export const PACKAGES = [
  "base-files",
  "ca-certificates",
  "gcc-14-base",
  "libc6",
  "libgcc-s1",
  "libstdc++6",
  "tzdata",
] as const;

export interface LockedPackage {
  /** `debian`, or `debian-security`. */
  readonly archive: string;
  /** In the archive. */
  readonly path: string;
  readonly sha256: string;
}

export interface DebianLock {
  readonly suite: string;
  /** When it was written, as snapshot.debian.org writes a date: from then on its archive has every file. */
  readonly snapshot: string;
  readonly packages: Readonly<Record<DebianArchitecture, readonly LockedPackage[]>>;
}

export const LOCK_FILE = path.join(import.meta.dirname, "debian.lock.json");

/** Where archives are: `http://HOST/debian` is below `http://HOST`. */
const DEFAULT_MIRROR = "http://deb.debian.org";
const SNAPSHOTS = "http://snapshot.debian.org/archive";
const APT_HELPER = "/usr/lib/apt/apt-helper";

export function readLock(): DebianLock {
  return JSON.parse(readFileSync(LOCK_FILE, "utf8"));
}

/** METALBRIDGE_DEBIAN_MIRROR, else the mirror of this system's own apt, else Debian's. */
export function debianMirror(env: NodeJS.ProcessEnv = process.env): string {
  const own = findDebianMirror(readAptSources())?.replace(/\/debian$/, "");
  return (env.METALBRIDGE_DEBIAN_MIRROR ?? own ?? DEFAULT_MIRROR).replace(/\/+$/, "");
}

interface FetchOptions {
  readonly mirror?: string;
  readonly snapshots?: string;
  readonly folder?: string;
}

/**
 * The archives of all packages of one architecture, each with the SHA-256 of the lock. A mirror has the newest versions only,
 * Debian's snapshots have all, so that an old release can be built again.
 */
export async function fetchLocked(
  { snapshot, packages }: DebianLock,
  architecture: DebianArchitecture,
  options: FetchOptions = {},
): Promise<readonly string[]> {
  const { mirror = debianMirror(), snapshots = SNAPSHOTS, folder = imagesCache("debian") } = options;
  mkdirSync(folder, { recursive: true });
  const files: string[] = [];
  for (const locked of packages[architecture]) {
    const file = path.join(folder, `${path.basename(locked.path)}-${locked.sha256.slice(0, 16)}.deb`);
    const places = [`${mirror}/${locked.archive}`, `${snapshots}/${locked.archive}/${snapshot}`];
    if (!existsSync(file)) await fetchFirst(places, locked, file);
    files.push(file);
  }
  return files;
}

async function fetchFirst(places: readonly string[], locked: LockedPackage, file: string): Promise<void> {
  const failures: string[] = [];
  for (const place of places) {
    const temporary = `${file}.${process.pid}`;
    try {
      await fetchFile(`${place}/${locked.path}`, temporary);
      const sum = sha256Hex(readFileSync(temporary));
      if (sum === locked.sha256) return renameSync(temporary, file);
      failures.push(`${place} has a file with the SHA-256 ${sum}`);
    } catch (error) {
      failures.push(error instanceof Error ? error.message : String(error));
    } finally {
      rmSync(temporary, { force: true });
    }
  }
  throw new ReleaseError(
    `no mirror has ${locked.path} with the SHA-256 ${locked.sha256}:\n${failures.join("\n")}`,
    "name one in METALBRIDGE_DEBIAN_MIRROR; for the packages of today: npm run update-debian-lock",
  );
}

/** apt's own program knows the proxies that apt is configured with. */
async function fetchFile(url: string, file: string): Promise<void> {
  if (!existsSync(APT_HELPER)) return download(url, file);
  const options = ["-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=2"];
  const { code, tail } = await run(APT_HELPER, [...options, "download-file", url, file]);
  if (code !== 0) throw new Error(`${url}: ${tail}`);
}
