/** The store's index: which source gave which content, and when it was last used. Kept in memory, written through. */
import { access, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { writeFileAtomic } from "../../src/util/atomic-file.ts";
import type { Log } from "../../src/util/ports.ts";
import { listFolder } from "./content/layout.ts";

const fileSchema = z.strictObject({
  name: z.string(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  sizeBytes: z.number().int().positive(),
  etag: z.string().optional(),
  lastModified: z.string().optional(),
  /** Where it came from, without query: only to show and to revalidate. */
  url: z.string(),
});

const VERSION = 1;
const newerSchema = z.object({ version: z.int().gt(VERSION) });

const refSchema = z.strictObject({
  version: z.literal(VERSION),
  key: z.string(),
  source: z.string(),
  revision: z.string().optional(),
  files: z.array(fileSchema).min(1),
  mmproj: z.string().optional(),
  /** What engines open, relative to the view; empty for the view itself. */
  entry: z.string(),
  view: z.string(),
  fetchedAt: z.string(),
  lastUsedMs: z.number(),
});

export type Ref = Readonly<z.infer<typeof refSchema>>;
export type RefFile = Ref["files"][number];

export interface Refs {
  readonly get: (key: string) => Ref | undefined;
  readonly all: () => readonly Ref[];
  /** A newer version wrote entries: what they name is not known here. */
  readonly hasNewer: boolean;
  readonly put: (ref: Ref) => Promise<void>;
  /** Rewrites the entry if its file was removed meanwhile. */
  readonly repair: (ref: Ref) => Promise<void>;
  readonly remove: (key: string) => Promise<void>;
}

/**
 * Reads the index; removes unreadable entries unless read-only. Their content is then fetched or found again. Entries
 * of a newer version stay for it, after a rollback too.
 */
export async function openRefs(folder: string, log: Log, isReadOnly = false): Promise<Refs> {
  const refs = new Map<string, Ref>();
  let hasNewer = false;
  for (const name of await listFolder(folder)) {
    const path = join(folder, name);
    const ref = name.endsWith(".json") ? await readRef(path) : undefined;
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
      "a newer version of Metalbridge wrote to this model store: its models stay, and are not used",
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
      const isThere = await access(join(folder, `${ref.key}.json`)).then(
        () => true,
        () => false,
      );
      if (!isThere) await put(ref);
    },
    remove: async (key) => {
      refs.delete(key);
      await rm(join(folder, `${key}.json`), { force: true });
    },
  };
}

async function readRef(path: string): Promise<Ref | "newer" | undefined> {
  try {
    const found: unknown = JSON.parse(await readFile(path, "utf8"));
    if (newerSchema.safeParse(found).success) return "newer";
    const parsed = refSchema.safeParse(found);
    return parsed.success ? parsed.data : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
