/** Installs, switches and removes engines. A complete version appears by one rename. Running engines keep the files of their version. */
import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, open, realpath, rm, stat, symlink } from "node:fs/promises";
import { basename, join, relative } from "node:path/posix";
import { pipeline } from "node:stream/promises";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Command } from "../../src/util/command.ts";
import { removeTree, replaceFile } from "../account-files.ts";
import { replaceLink } from "../apply.ts";
import { partialName, replaceFolder, syncTree } from "../release/stage.ts";
import {
  changesOf,
  enginePlaces,
  type InstalledEngine,
  leftoversIn,
  listEngines,
  PROGRAM,
  recordedFrom,
  versionPlaces,
} from "./store.ts";
import { type FolderContents, invalidArchive, tapChunks, unpackEngine } from "./unpack.ts";

export interface EngineStore {
  readonly prefix: string;
  /** Owner of the files: root, or the user of a LaunchAgent. */
  readonly owner: number;
  /** Node's platform and architecture, such as darwin-arm64. */
  readonly platform: string;
  readonly run: Command;
  /** Runs the program as the agent's account, never as root, and resolves to the version that it prints. */
  readonly readVersion: (program: string) => Promise<string>;
  /** Command lines of all processes. Throws when they cannot be read. */
  readonly commands: () => Promise<readonly string[]>;
  readonly print: (line: string) => void;
  readonly now: () => Date;
}

export interface EngineSource {
  /** A path or a URL. */
  readonly from: string;
  readonly sha256?: string | undefined;
  /** Accepts the archive without `sha256`. */
  readonly isTrusted: boolean;
}

const MAX_ARCHIVE_BYTES = 4 * 2 ** 30;
const SHORT_SUM = 12;
const NOT_INSTALLED = {
  summary: `nothing was installed: unpack the archive elsewhere and run its ${PROGRAM} --version to see why, or take another release`,
};
const FIREWALL = "/usr/libexec/ApplicationFirewall/socketfilterfw";

/** Throws MetalbridgeError or the system error. After a failure, the current version remains in use. */
export async function installEngine(store: EngineStore, source: EngineSource): Promise<void> {
  const { prefix, print } = store;
  const { folder } = enginePlaces(prefix);
  await mkdir(folder, { recursive: true });
  await removeLeftovers(prefix);
  const known = (await listEngines(prefix)).find(
    ({ record }) => !("damage" in record) && record.sha256 === source.sha256?.toLowerCase(),
  );
  if (known !== undefined && (await changesOf(known, store.owner)).length === 0) return useOne(store, known);
  const archive = join(folder, partialName("archive"));
  const partial = join(folder, partialName("unpacked"));
  try {
    const sha256 = await copyArchive(source, archive);
    const places = versionPlaces(partial);
    await mkdir(places.files, { recursive: true });
    const tree = await unpackEngine(archive, places.files);
    await linkProgram(store, partial, tree);
    const version = await readUnpackedVersion(store, partial, source);
    const name = `${version}-${sha256.slice(0, SHORT_SUM)}`;
    const from = recordedFrom(source.from);
    const record = { version, sha256, from, installedAt: store.now().toISOString(), ...tree };
    replaceFile(places.record, `${JSON.stringify(record, undefined, 2)}\n`, { mode: 0o644 });
    await syncTree(
      partial,
      Object.keys(tree.files).map((path) => `files/${path}`),
    );
    await replaceFolder(partial, join(folder, name));
    print(`${PROGRAM} ${version} is unpacked in ${join(folder, name)}`);
    await useEngine(store, name);
  } finally {
    await removeLeftovers(prefix);
  }
}

/** The message of a failure names the program's path in the archive, because the unpacked folder is removed. */
async function readUnpackedVersion(
  store: EngineStore,
  folder: string,
  { from }: EngineSource,
): Promise<string> {
  const program = await realpath(versionPlaces(folder).program);
  try {
    return await store.readVersion(program);
  } catch (cause) {
    if (!(cause instanceof MetalbridgeError)) throw cause;
    const { code, remedy } = cause;
    const inArchive = relative(await realpath(versionPlaces(folder).files), program);
    const message = cause.message.replaceAll(program, `${inArchive} of ${recordedFrom(from)}`);
    throw new MetalbridgeError(code, message, code === "RuntimeBroken" ? NOT_INSTALLED : remedy, { cause });
  }
}

/** Removes temporary files of this command and of interrupted commands, and a damaged version that was replaced. */
async function removeLeftovers(prefix: string): Promise<void> {
  for (const path of await leftoversIn(prefix)) removeTree(path, "installer");
}

/** `name`: the name of a folder, or the version of one folder. Throws EngineNotInstalled, EngineFilesChanged. */
export async function useEngine(store: EngineStore, name: string): Promise<void> {
  const engine = findEngine(await listEngines(store.prefix), name);
  const changes = await changesOf(engine, store.owner);
  if (changes.length > 0)
    throw new MetalbridgeError("EngineFilesChanged", `${engine.folder}: ${changes.slice(0, 3).join("; ")}`);
  await useOne(store, engine);
}

/** Throws EngineNotInstalled, or EngineInUse if a process runs a file of the engine. */
export async function removeEngine(store: EngineStore, name: string): Promise<void> {
  const engine = findEngine(await listEngines(store.prefix), name);
  const { folder } = engine;
  const running = (await store.commands()).filter((command) => command.includes(`${folder}/`));
  if (running.length > 0)
    throw new MetalbridgeError("EngineInUse", `${running.length} processes run from ${folder}`);
  // The link is removed first, so that it never leads to an incomplete folder.
  if (engine.isCurrent) await rm(enginePlaces(store.prefix).current, { force: true });
  removeTree(folder, "installer");
  store.print(`${engine.name} is removed`);
  if (engine.isCurrent)
    store.print(`no installed engine is in use: the agent searches its PATH for ${PROGRAM}`);
}

async function useOne({ prefix, platform, print }: EngineStore, engine: InstalledEngine): Promise<void> {
  if (engine.isCurrent) return print(`${PROGRAM} ${engine.name} is already in use`);
  await replaceLink(enginePlaces(prefix).current, engine.name);
  print(`${PROGRAM} ${engine.name} is in use; running engines keep their version until their next start`);
  if (!platform.startsWith("darwin")) return;
  const program = await realpath(enginePlaces(prefix).program);
  print("if the firewall is on, allow the program:");
  for (const flag of ["--add", "--unblockapp"]) print(`  sudo ${FIREWALL} ${flag} ${program}`);
}

function findEngine(engines: readonly InstalledEngine[], selector: string): InstalledEngine {
  const exact = engines.find(({ name }) => name === selector);
  const matching = engines.filter(
    ({ version, name }) => version === selector || name.endsWith(`-${selector}`),
  );
  const found = exact ?? (matching.length === 1 ? matching[0] : undefined);
  if (found !== undefined) return found;
  const names = engines.map(({ name }) => name).join(", ") || "none";
  const problem = matching.length > 1 ? `several versions match ${selector}` : `${selector} is not installed`;
  throw new MetalbridgeError("EngineNotInstalled", `${problem}; installed: ${names}`);
}

/** Copies the archive to root's folder, because other accounts could change the original between the check and the unpacking. */
async function copyArchive({ from, sha256, isTrusted }: EngineSource, to: string): Promise<string> {
  const hash = createHash("sha256");
  let bytes = 0;
  const chunks = tapChunks(await openSource(from), (chunk) => {
    bytes += chunk.length;
    if (bytes > MAX_ARCHIVE_BYTES) throw invalidArchive(`${from} has more than ${MAX_ARCHIVE_BYTES} bytes`);
    hash.update(chunk);
  });
  await pipeline(chunks, createWriteStream(to, { flags: "wx", mode: 0o600 }));
  const sum = hash.digest("hex");
  if (sha256 === undefined && !isTrusted)
    throw new MetalbridgeError("EngineSumMissing", `${from} has the SHA-256 ${sum}`);
  if (sha256 !== undefined && sum !== sha256.toLowerCase())
    throw new MetalbridgeError("EngineSumMismatch", `${from} has the SHA-256 ${sum}, not ${sha256}`);
  return sum;
}

async function openSource(from: string): Promise<AsyncIterable<unknown>> {
  if (!/^https?:/.test(from)) {
    const found = await stat(from).catch((cause: unknown) => {
      throw invalidArchive(`${from} cannot be read: ${reasonOf(cause)}`, cause);
    });
    if (!found.isFile()) throw invalidArchive(`${from} is not a regular file`);
    return createReadStream(from);
  }
  const response = await fetch(from).catch((cause: unknown) => {
    throw invalidArchive(`${from} cannot be fetched: ${reasonOf(cause)}`, cause);
  });
  if (!response.ok || response.body === null) throw invalidArchive(`${from} answers ${response.status}`);
  return bytesOf(response.body, from);
}

async function* bytesOf(body: AsyncIterable<unknown>, from: string): AsyncIterable<unknown> {
  try {
    yield* body;
  } catch (cause) {
    throw invalidArchive(`the download of ${from} was interrupted: ${reasonOf(cause)}`, cause);
  }
}

/** The reason is in the cause of an error of fetch. The error of an attempt at several addresses has only a code. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (!(cause instanceof Error)) return String(cause);
  return cause.message === "" && "code" in cause ? String(cause.code) : cause.message;
}

/** Links the program, which is at the top of the archive, in `bin`, or in `build/bin`. */
async function linkProgram(
  { platform, run }: EngineStore,
  folder: string,
  { files }: FolderContents,
): Promise<void> {
  const depth = (path: string) => path.split("/").length;
  const [path] = Object.keys(files)
    .filter((name) => basename(name) === PROGRAM)
    .sort((one, other) => depth(one) - depth(other) || one.localeCompare(other));
  if (path === undefined) throw invalidArchive(`the archive holds no ${PROGRAM}`);
  const { files: unpacked, program } = versionPlaces(folder);
  const { mode } = await stat(join(unpacked, path));
  if ((mode & 0o111) === 0) throw invalidArchive(`${path} in the archive is not executable`);
  const platforms = (await platformsOf(join(unpacked, path))) ?? [platform];
  if (!platforms.includes(platform))
    throw new MetalbridgeError(
      "EngineForAnotherMachine",
      `${path} in the archive is for ${platforms.join(", ")}; this machine is ${platform}`,
    );
  await symlink(`files/${path}`, program);
  // The quarantine is removed only after the check of the sum. An error is ignored, because there is usually no quarantine.
  if (platform.startsWith("darwin")) await run("xattr", ["-dr", "com.apple.quarantine", folder]);
}

const MAX_BYTES = 4_096;
const ELF_MACHINES: Readonly<Record<number, string>> = { 62: "x64", 183: "arm64" };
const MACH_O_CPUS: Readonly<Record<number, string>> = { 16777223: "x64", 16777228: "arm64" };
const FAT_ENTRY = 20;

/** Node's platforms and architectures, such as darwin-arm64. Undefined for a script, which runs on any machine. */
export async function platformsOf(program: string): Promise<readonly string[] | undefined> {
  const file = await open(program, "r");
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_BYTES), 0, MAX_BYTES, 0);
    return platformsIn(buffer.subarray(0, bytesRead));
  } finally {
    await file.close();
  }
}

function platformsIn(head: Buffer): readonly string[] | undefined {
  if (head.subarray(0, 2).toString("latin1") === "#!") return undefined;
  const magic = head.length < 20 ? 0 : head.readUInt32BE(0);
  switch (magic) {
    case 0x7f454c46:
      return [`linux-${ELF_MACHINES[head.readUInt16LE(18)] ?? "another processor"}`];
    case 0xcffaedfe:
      return [macOn(head.readUInt32LE(4))];
    case 0xcafebabe: {
      const count = Math.min(head.readUInt32BE(4), Math.floor((head.length - 8) / FAT_ENTRY));
      return Array.from({ length: count }, (_, index) => macOn(head.readUInt32BE(8 + index * FAT_ENTRY)));
    }
    default:
      return ["another system"];
  }
}

function macOn(cpu: number): string {
  return `darwin-${MACH_O_CPUS[cpu] ?? "another processor"}`;
}
