/** The store's index: the contents of each source, and when they were last used. Held in memory and written through. */
import { access, rm } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { writeFileAtomic } from "../../../src/util/atomic-file.ts";
import { listFolder } from "../../../src/util/folder.ts";
import type { Log } from "../../../src/util/ports.ts";
import { readJson } from "./persisted-json.ts";

const fileSchema = z.strictObject({
  name: z.string(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  sizeBytes: z.number().int().positive(),
  etag: z.string().optional(),
  lastModified: z.string().optional(),
  /** Address of the download without its query, for display and revalidation only. */
  url: z.string(),
});

const VERSION = 1;
const newerSchema = z.object({ version: z.int().gt(VERSION) }).transform(() => "newer" as const);

const refSchema = z.strictObject({
  version: z.literal(VERSION),
  key: z.string(),
  source: z.string(),
  revision: z.string().optional(),
  files: z.array(fileSchema).min(1),
  mmproj: z.string().optional(),
  /** Path that engines open, relative to the view; empty for the view itself. */
  entry: z.string(),
  view: z.string(),
  fetchedAt: z.string(),
  lastUsedMs: z.number(),
});

const entrySchema = z.union([newerSchema, refSchema]);

export type Ref = Readonly<z.infer<typeof refSchema>>;
export type RefFile = Ref["files"][number];

export interface Refs {
  readonly get: (key: string) => Ref | undefined;
  readonly all: () => readonly Ref[];
  /** A newer version wrote entries, so this version does not know all contents that are named. */
  readonly hasNewer: boolean;
  readonly put: (ref: Ref) => Promise<void>;
  /** Rewrites the entry if its file was removed by a user. */
  readonly repair: (ref: Ref) => Promise<void>;
  readonly remove: (key: string) => Promise<void>;
}

/**
 * Reads the index, and removes unreadable entries unless it is read-only. Their content is then fetched or found again.
 * Entries of a newer version are retained, for an upgrade after a rollback.
 */
export async function openRefs(folder: string, log: Log, isReadOnly = false): Promise<Refs> {
  const refs = new Map<string, Ref>();
  let hasNewer = false;
  for (const name of await listFolder(folder)) {
    const path = join(folder, name);
    const ref = name.endsWith(".json") ? await readJson(path, entrySchema) : undefined;
    if (ref === "newer") hasNewer = true;
    else if (ref !== undefined && name === `${ref.key}.json`) refs.set(ref.key, ref);
    else if (!isReadOnly) {
      log.warn({ file: name }, "removed an unreadable entry of the model index");
      await rm(path, { force: true });
    }
  }
  if (hasNewer)
    log.warn(
      { folder },
      "a newer version of Metalbridge wrote to this model store; its models are retained but not used",
    );
  const put = async (ref: Ref): Promise<void> => {
    await writeFileAtomic(join(folder, `${ref.key}.json`), JSON.stringify(ref));
    refs.set(ref.key, ref);
  };
  return {
    get: (key) => refs.get(key),
    all: () => [...refs.values()],
    hasNewer,
    put,
    repair: async (ref) => {
      await access(join(folder, `${ref.key}.json`)).catch(() => put(ref));
    },
    remove: async (key) => {
      refs.delete(key);
      await rm(join(folder, `${key}.json`), { force: true });
    },
  };
}
