/** Brings a release into the versions folder. A version appears there whole, by one rename, or not at all. */
import { chmodSync, constants, copyFileSync, mkdirSync, statSync } from "node:fs";
import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
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

/** A release whose files were checked, waiting to become a version. */
export interface ReleaseSource {
  readonly manifest: ReleaseManifest;
  /** Throws ReleaseInvalid or the system's error; leaves nothing behind then. */
  readonly stage: (versions: string) => Promise<void>;
  /** Removes what was unpacked. */
  readonly discard: () => Promise<void>;
}

/** Folders that interrupted runs may leave; they are removed after the next success. */
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
  /** Absent: the file beside the archive, with .sha256 at its end. */
  readonly sha256?: string | undefined;
  readonly platform: string;
  /** Where it is unpacked: on the volume it will stay on. */
  readonly versions: string;
  readonly run: Command;
}

/** Throws ReleaseSumMissing, ReleaseSumMismatch, ReleaseInvalid. */
export async function sourceFromArchive(input: ArchiveInput): Promise<ReleaseSource> {
  const { archive, platform, versions, run } = input;
  await checkSum(archive, input.sha256 ?? (await sumBeside(archive)));
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
      "--strip-components",
      "1",
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
  /** As Node names it, such as darwin-arm64. */
  readonly platform: string;
}

/** Version and platform of an archive, without unpacking it. Throws ReleaseSumMissing, ReleaseSumMismatch, ReleaseInvalid. */
export async function readArchive(archive: string, run: Command, sha256?: string): Promise<ReadArchive> {
  const expected = sha256 ?? (await sumBeside(archive));
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

/** As sha256sum writes it: the sum, two blanks, the name. */
async function sumBeside(archive: string): Promise<string> {
  const text = await readFile(`${archive}.sha256`, "utf8").catch(() => undefined);
  const line = text
    ?.split("\n")
    .find((one) => one.trim().endsWith(basename(archive)) || !one.trim().includes(" "));
  const sum = /^[0-9a-fA-F]{64}/.exec(line ?? "")?.[0];
  if (sum !== undefined) return sum;
  throw new MetalbridgeError("ReleaseSumMissing", `${archive}.sha256 is missing or has no sum of this file`);
}

/** GNU tar says how much it wrote, bsdtar that no space is left. */
function unpackError(archive: string, result: CommandResult): Error {
  const reason = commandFailure(result);
  if (!/no space left|wrote only/i.test(result.stderr))
    return invalidRelease(`${archive} cannot be unpacked: ${reason}`);
  return Object.assign(new Error(`${archive}: ${reason}`), { code: "ENOSPC" });
}

async function copyInto(versions: string, folder: string, manifest: ReleaseManifest): Promise<void> {
  const partial = join(versions, partialName(manifest.version));
  try {
    await rm(partial, { recursive: true, force: true });
    await mkdir(partial, { recursive: true });
    copyRelease(folder, partial, manifest);
    // The copies: what is started later is what was checked.
    await checkFiles(partial, manifest);
    await publish(partial, versions, manifest);
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    throw error;
  }
}

/** A version must survive a power cut right after the switch, so all of it is on the disk before it has its name. */
async function publish(
  partial: string,
  versions: string,
  { version, files }: ReleaseManifest,
): Promise<void> {
  await syncTree(partial, [MANIFEST, ...Object.keys(files)]);
  await replaceFolder(partial, join(versions, version));
}

/** The files and all folders above them. */
export async function syncTree(folder: string, paths: readonly string[]): Promise<void> {
  for (const path of [...paths, ...foldersOf(paths)]) await syncPath(join(folder, path));
}

/** With all folders above them, and the one that they are relative to. */
function foldersOf(paths: readonly string[]): ReadonlySet<string> {
  const folders = new Set(["."]);
  for (const path of paths)
    for (let folder = dirname(path); folder !== "."; folder = dirname(folder)) folders.add(folder);
  return folders;
}

/**
 * The folder is on the disk under its name when this resolves. A damaged version that the agent may still run is moved aside,
 * and removed after the new one has served.
 */
export async function replaceFolder(from: string, to: string): Promise<void> {
  const aside = join(dirname(to), partialName(`${basename(to)}.damaged`));
  await rm(aside, { recursive: true, force: true });
  const isReplaced = await rename(to, aside).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
      return false;
    },
  );
  try {
    await rename(from, to);
  } catch (error) {
    if (isReplaced) await rename(aside, to);
    throw error;
  }
  await syncPath(dirname(to));
}

/** Synchronous, for the same reason as `sha256Of`. */
function copyRelease(from: string, to: string, { files }: ReleaseManifest): void {
  const paths = [MANIFEST, ...Object.keys(files)];
  for (const folder of foldersOf(paths)) mkdirSync(join(to, folder), { recursive: true });
  for (const path of paths) {
    const [source, target] = [join(from, path), join(to, path)];
    copyFileSync(source, target, constants.COPYFILE_FICLONE);
    chmodSync(target, (statSync(source).mode & 0o111) === 0 ? 0o644 : 0o755);
  }
}

async function syncPath(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Written once the version has served. */
export const provenMark = (versions: string, version: string): string => join(versions, version, ".proven");

export interface InstalledVersions {
  readonly versions: readonly string[];
  readonly proven: readonly string[];
  readonly partials: readonly string[];
}

/** What is in the versions folder; a folder without release.json is no version, nor is one that is not as `release` has it. */
export async function listVersions(versions: string, release?: ReleaseManifest): Promise<InstalledVersions> {
  const names = await readdir(versions).catch(() => []);
  const has = async (path: string) => (await stat(path).catch(() => undefined)) !== undefined;
  const kept: string[] = [];
  const proven: string[] = [];
  for (const name of names) {
    if (isPartial(name) || !(await has(join(versions, name, MANIFEST)))) continue;
    if (name === release?.version && !(await isWhole(join(versions, name), release))) continue;
    kept.push(name);
    if (await has(provenMark(versions, name))) proven.push(name);
  }
  return { versions: kept.sort(), proven, partials: names.filter((name) => !kept.includes(name)) };
}

async function isWhole(folder: string, release: ReleaseManifest): Promise<boolean> {
  try {
    await checkFiles(folder, release);
    return (await readReleaseManifest(folder)) !== undefined;
  } catch (error) {
    if (error instanceof MetalbridgeError) return false;
    throw error;
  }
}
