/** Small JSON files of the store. */
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { z } from "zod";
import { systemCode, writeFileAtomic } from "../../../src/util/atomic-file.ts";
import { makeFolder } from "../../../src/util/folder.ts";
import type { Log } from "../../../src/util/ports.ts";
import { createSerializer } from "../../../src/util/serializer.ts";

/** Undefined for a file that is not there, or has something else in it. */
export async function readJson<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
  try {
    const parsed = schema.safeParse(JSON.parse(await readFile(path, "utf8")));
    return parsed.success ? parsed.data : undefined;
  } catch (error) {
    if (systemCode(error) === "ENOENT" || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

export interface PersistedJson<T> {
  /** As it was on disk; undefined if there was none, or none that can be read. */
  readonly before: T | undefined;
  /** `value` is asked for when its turn comes: the last write has everything. */
  readonly write: (value: () => T) => Promise<void>;
}

/** Read once and written through; writes follow one another. */
export async function openPersistedJson<T>(
  path: string,
  schema: z.ZodType<T>,
  log: Log,
  whenUnreadable: string,
): Promise<PersistedJson<T>> {
  const inTurn = createSerializer();
  const read = async (): Promise<T | undefined> => {
    try {
      const parsed = schema.safeParse(JSON.parse(await readFile(path, "utf8")));
      if (parsed.success) return parsed.data;
    } catch (error) {
      if (systemCode(error) === "ENOENT") return undefined;
      if (!(error instanceof SyntaxError)) throw error;
    }
    log.warn({ path }, whenUnreadable);
    return undefined;
  };
  return {
    before: await read(),
    write: (value) =>
      inTurn(async () => {
        await makeFolder(dirname(path));
        await writeFileAtomic(path, JSON.stringify(value()));
      }),
  };
}
