/** The engines that root has installed: a folder for each version, with the hash of every file, and the link `current`. */
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { basename, join } from "node:path/posix";
import * as z from "zod";
import { sha256Of } from "../release/manifest.ts";
import { isPartial } from "../release/stage.ts";

export const PROGRAM = "llama-server";
const RECORD = "engine.json";
const WRITABLE_BY_OTHERS = 0o022;

const recordSchema = z.object({
  /** The version that the program prints, such as b11669. */
  version: z.string(),
  /** SHA-256 of the archive. */
  sha256: z.string(),
  /** Path or URL of the archive. */
  from: z.string(),
  installedAt: z.string(),
  files: z.record(z.string(), z.string()),
  links: z.record(z.string(), z.string()),
});

type EngineRecord = z.infer<typeof recordSchema>;

/** A version on the disk. */
export interface InstalledEngine {
  /** Name of its folder, such as b11669-0123456789ab. */
  readonly name: string;
  readonly version: string;
  readonly folder: string;
  readonly isCurrent: boolean;
  /** The record, or the reason why it cannot be read. */
  readonly record: EngineRecord | { readonly damage: string };
}

/** Paths below the prefix of an installation. */
export const enginePlaces = (prefix: string) => {
  const folder = `${prefix}/engines/llamacpp`;
  return { folder, current: `${folder}/current`, program: `${folder}/current/${PROGRAM}` };
};

/** Paths in the folder of a version. */
export const versionPlaces = (folder: string) => ({
  record: `${folder}/${RECORD}`,
  /** The content of the archive. */
  files: `${folder}/files`,
  /** A link to the program in `files`. */
  program: `${folder}/${PROGRAM}`,
});

/** Removes the parts of a URL that may be secret, such as a bucket's signature, because every account can read the record. */
export function recordedFrom(from: string): string {
  const url = /^https?:/.test(from) ? URL.parse(from) : null;
  return url === null ? from : `${url.origin}${url.pathname}`;
}

/** Lists engines with a damaged record first, then the others, oldest first. */
export async function listEngines(prefix: string): Promise<readonly InstalledEngine[]> {
  const { folder, current } = enginePlaces(prefix);
  const [entries, used] = await Promise.all([
    readdir(folder, { withFileTypes: true }).catch(() => []),
    readlink(current).catch(() => undefined),
  ]);
  const found = await Promise.all(
    entries
      .filter((entry) => entry.isDirectory() && !isPartial(entry.name))
      .map(async ({ name }): Promise<InstalledEngine> => {
        const record = await readRecord(join(folder, name));
        // The name of a folder is its version and the beginning of the sum.
        const version = "damage" in record ? name.replace(/-[^-]*$/, "") : record.version;
        return { name, version, folder: join(folder, name), isCurrent: name === used, record };
      }),
  );
  const installedAt = ({ record }: InstalledEngine) => ("damage" in record ? "" : record.installedAt);
  return found.sort((one, other) => installedAt(one).localeCompare(installedAt(other)));
}

/** Temporary files of interrupted commands. */
export async function leftoversIn(prefix: string): Promise<readonly string[]> {
  const { folder } = enginePlaces(prefix);
  const names = await readdir(folder).catch(() => []);
  return names.filter(isPartial).map((name) => join(folder, name));
}

async function readRecord(folder: string): Promise<InstalledEngine["record"]> {
  const file = versionPlaces(folder).record;
  try {
    const parsed = recordSchema.safeParse(JSON.parse(await readFile(file, "utf8")));
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    return { damage: `${RECORD} is damaged: ${issue?.path.join(".") ?? ""} ${issue?.message ?? ""}` };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { damage: `${RECORD} ${error instanceof SyntaxError ? "is damaged" : "cannot be read"}: ${why}` };
  }
}

/** Describes each difference between the files on the disk and the installed files. `owner`: required uid of the files. */
export async function changesOf(engine: InstalledEngine, owner: number): Promise<readonly string[]> {
  const { folder, record } = engine;
  if ("damage" in record) return [record.damage];
  const { files } = versionPlaces(folder);
  const known = new Set([...Object.keys(record.files), ...Object.keys(record.links)]);
  const changes: string[] = (await hasOwnProgram(folder, record))
    ? []
    : [`${PROGRAM} leads to no installed file`];
  for (const path of await filesBelow(files)) {
    const change = await changeOf(join(files, path), record, path, owner);
    if (change !== undefined) changes.push(`${path} ${change}`);
    known.delete(path);
  }
  return [...changes, ...[...known].map((path) => `${path} is missing`)].sort();
}

/** True if the link that the agent starts leads to an installed program. */
async function hasOwnProgram(folder: string, { files }: EngineRecord): Promise<boolean> {
  const target = await readlink(versionPlaces(folder).program).catch(() => "");
  return Object.keys(files).some((path) => target === `files/${path}` && basename(path) === PROGRAM);
}

async function changeOf(
  file: string,
  { files, links }: EngineRecord,
  path: string,
  owner: number,
): Promise<string | undefined> {
  const found = await lstat(file);
  if (found.uid !== owner) return `belongs to uid ${found.uid}`;
  if (found.isSymbolicLink())
    return links[path] === (await readlink(file)) ? undefined : "leads to another file";
  if ((found.mode & WRITABLE_BY_OTHERS) !== 0) return "may be changed by other accounts";
  if (found.isDirectory()) return undefined;
  const expected = files[path];
  if (expected === undefined) return "was added";
  return found.isFile() && (await sha256Of(file)) === expected ? undefined : "has other bytes";
}

async function filesBelow(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries.map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
}
