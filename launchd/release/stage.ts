/** Copies a release to the versions folder. A complete version appears there by one rename. */
import { chmodSync, constants, copyFileSync, mkdirSync, statSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { ifExists, syncPath, systemError } from "../../src/util/atomic-file.ts";
import { type Command, type CommandResult, commandFailure } from "../../src/util/command.ts";
import {
  checkFiles,
  checkPlatform,
  invalidRelease,
  MANIFEST,
  parseReleaseManifest,
  type ReleaseManifest,
  readReleaseManifest,
  sha256Of,
} from "./manifest.ts";

/** A release whose files were checked, and which can be staged as a version. */
export interface ReleaseSource {
  readonly manifest: ReleaseManifest;
  /** Throws ReleaseInvalid or the system error, and in that case leaves no files behind. */
  readonly stage: (versions: string) => Promise<void>;
  /** Removes the unpacked files. */
  readonly discard: () => Promise<void>;
}

/** True for leftovers of interrupted runs, which are removed after the next successful run. */
export const isPartial = (name: string): boolean => name.startsWith(".") && name.endsWith(".partial");

/** Name of a folder or file that is incomplete. */
export const partialName = (what: string): string => `.${what}.${process.pid}.partial`;

/** The release that this program was started from. Throws NotARelease in a source checkout. */
export async function sourceFromFolder(folder: string, platform: string): Promise<ReleaseSource> {
  const manifest = await readReleaseManifest(folder);
  if (manifest === undefined)
    throw new MetalbridgeError("NotARelease", `${folder} has no ${MANIFEST}: it is a source checkout`);
  checkPlatform(manifest, platform);
  await checkFiles(folder, manifest);
  return {
    manifest,
    stage: (versions) => copyInto(versions, folder, manifest),
    discard: async () => undefined,
  };
}

export interface ArchiveInput {
  readonly archive: string;
  /** Absent: it is read from the file with the suffix .sha256 next to the archive. */
  readonly sha256?: string | undefined;
  readonly platform: string;
  /** Folder in which the archive is unpacked, on the same volume as the versions. */
  readonly versions: string;
  readonly run: Command;
}

/** Throws ReleaseSumMissing, ReleaseSumMismatch, ReleaseInvalid. */
export async function sourceFromArchive(input: ArchiveInput): Promise<ReleaseSource> {
  const { archive, platform, versions, run } = input;
  await checkSum(archive, input.sha256 ?? (await readChecksumFile(archive)));
  await mkdir(versions, { recursive: true });
  const partial = join(versions, partialName("unpacked"));
  const discard = () => rm(partial, { recursive: true, force: true });
  try {
    await discard();
    await mkdir(partial);
    const result = await run("tar", [
      "-xzf",
      archive,
      "-C",
      partial,
      "--strip-components=1",
      "--no-same-owner",
    ]);
    if (result.exitCode !== 0) throw unpackError(archive, result);
    const manifest = await readReleaseManifest(partial);
    if (manifest === undefined) throw invalidRelease(`${archive} has no ${MANIFEST}`);
    checkPlatform(manifest, platform);
    await checkFiles(partial, manifest);
    return { manifest, discard, stage: (folder) => publish(partial, folder, manifest) };
  } catch (error) {
    await discard();
    throw error;
  }
}

export interface ReadArchive {
  readonly archive: string;
  readonly sha256: string;
  readonly version: string;
  /** Node's platform and architecture, such as darwin-arm64. */
  readonly platform: string;
}

/** Version and platform of an archive, without unpacking it. Throws ReleaseSumMissing, ReleaseSumMismatch, ReleaseInvalid. */
export async function readArchive(archive: string, run: Command, sha256?: string): Promise<ReadArchive> {
  const expected = sha256 ?? (await readChecksumFile(archive));
  await checkSum(archive, expected);
  const listed = await run("tar", ["-tzf", archive]);
  if (listed.exitCode !== 0) throw unpackError(archive, listed);
  const entry = listed.stdout.split("\n").find((name) => /^(\.\/)?[^/]+\/release\.json$/.test(name));
  if (entry === undefined) throw invalidRelease(`${archive} has no ${MANIFEST}`);
  const read = await run("tar", ["-xzOf", archive, "--", entry]);
  if (read.exitCode !== 0) throw unpackError(archive, read);
  const { version, platform } = parseReleaseManifest(read.stdout, `${archive}: ${MANIFEST}`);
  return { archive, sha256: expected.trim().toLowerCase(), version, platform };
}

async function checkSum(archive: string, expected: string): Promise<void> {
  const sum = await sha256Of(archive).catch((cause: unknown) => {
    throw new MetalbridgeError("ReleaseInvalid", `${archive} cannot be read`, undefined, { cause });
  });
  if (sum === expected.trim().toLowerCase()) return;
  throw new MetalbridgeError("ReleaseSumMismatch", `${archive} has the SHA-256 ${sum}, not ${expected}`);
}

/** Reads a file in the format of sha256sum: the sum, two spaces, the name. */
async function readChecksumFile(archive: string): Promise<string> {
  const text = await readFile(`${archive}.sha256`, "utf8").catch(() => undefined);
  const line = text
    ?.split("\n")
    .find((one) => one.trim().endsWith(basename(archive)) || !one.trim().includes(" "));
  const sum = /^[0-9a-fA-F]{64}/.exec(line ?? "")?.[0];
  if (sum !== undefined) return sum;
  throw new MetalbridgeError(
    "ReleaseSumMissing",
    `${archive}.sha256 is missing or has no checksum for this file`,
  );
}

/** On a full disk, GNU tar reports how much it wrote, and bsdtar that no space is left. */
function unpackError(archive: string, result: CommandResult): Error {
  const reason = commandFailure(result);
  if (!/no space left|wrote only/i.test(result.stderr))
    return invalidRelease(`${archive} cannot be unpacked: ${reason}`);
  return systemError("ENOSPC", `${archive}: ${reason}`);
}

async function copyInto(versions: string, folder: string, manifest: ReleaseManifest): Promise<void> {
  const partial = join(versions, partialName(manifest.version));
  try {
    await rm(partial, { recursive: true, force: true });
    await mkdir(partial, { recursive: true });
    copyRelease(folder, partial, manifest);
    // The copies are checked, because they are the files that run later.
    await checkFiles(partial, manifest);
    await publish(partial, versions, manifest);
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    throw error;
  }
}

/** Syncs all files before the rename, because a version must survive a power loss right after the switch. */
async function publish(
  partial: string,
  versions: string,
  { version, files }: ReleaseManifest,
): Promise<void> {
  await syncTree(partial, [MANIFEST, ...Object.keys(files)]);
  await replaceFolder(partial, join(versions, version));
}

/** Syncs the files and all folders above them. */
export async function syncTree(folder: string, paths: readonly string[]): Promise<void> {
  for (const path of [...paths, ...foldersOf(paths)]) await syncPath(join(folder, path));
}

/** All folders above the paths, including the folder that the paths are relative to. */
function foldersOf(paths: readonly string[]): ReadonlySet<string> {
  const folders = new Set(["."]);
  for (const path of paths)
    for (let folder = dirname(path); folder !== "."; folder = dirname(folder)) folders.add(folder);
  return folders;
}

/**
 * Resolves when the folder is on the disk under its name. A damaged version that the agent may still run is renamed, and
 * removed after the new version has served.
 */
export async function replaceFolder(from: string, to: string): Promise<void> {
  const aside = join(dirname(to), partialName(`${basename(to)}.damaged`));
  await rm(aside, { recursive: true, force: true });
  const isReplaced = await ifExists(rename(to, aside).then(() => true));
  try {
    await rename(from, to);
  } catch (error) {
    if (isReplaced) await rename(aside, to);
    throw error;
  }
  await syncPath(dirname(to));
}

/** Copies synchronously, for the same reason as `sha256Of`. */
function copyRelease(from: string, to: string, { files }: ReleaseManifest): void {
  const paths = [MANIFEST, ...Object.keys(files)];
  for (const folder of foldersOf(paths)) mkdirSync(join(to, folder), { recursive: true });
  for (const path of paths) {
    const [source, target] = [join(from, path), join(to, path)];
    copyFileSync(source, target, constants.COPYFILE_FICLONE);
    chmodSync(target, (statSync(source).mode & 0o111) === 0 ? 0o644 : 0o755);
  }
}

/** This file is written once the version has served. */
export const knownGoodMark = (versions: string, version: string): string =>
  join(versions, version, ".proven");

export interface InstalledVersions {
  readonly versions: readonly string[];
  readonly proven: readonly string[];
  readonly partials: readonly string[];
}

/** Lists the versions folder. A folder without release.json, or one that differs from `release`, does not count as a version. */
export async function listVersions(versions: string, release?: ReleaseManifest): Promise<InstalledVersions> {
  const names = await readdir(versions).catch(() => []);
  const has = async (path: string) => (await stat(path).catch(() => undefined)) !== undefined;
  const complete: string[] = [];
  const proven: string[] = [];
  for (const name of names) {
    if (isPartial(name) || !(await has(join(versions, name, MANIFEST)))) continue;
    if (name === release?.version && !(await isIntact(join(versions, name), release))) continue;
    complete.push(name);
    if (await has(knownGoodMark(versions, name))) proven.push(name);
  }
  return { versions: complete.sort(), proven, partials: names.filter((name) => !complete.includes(name)) };
}

async function isIntact(folder: string, release: ReleaseManifest): Promise<boolean> {
  try {
    await checkFiles(folder, release);
    return (await readReleaseManifest(folder)) !== undefined;
  } catch (error) {
    if (error instanceof MetalbridgeError) return false;
    throw error;
  }
}
