/** Small JSON files of the store. */
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { z } from "zod";
import { ifExists, writeFileAtomic } from "../../../src/util/atomic-file.ts";
import { makeFolder } from "../../../src/util/folder.ts";
import { parseJson } from "../../../src/util/parse-json.ts";
import type { Log } from "../../../src/util/ports.ts";
import { createSerializer } from "../../../src/util/serializer.ts";

/** Undefined for a file that is missing or does not match the schema. `onInvalid` is called only for the second case. */
export async function readJson<T>(
  path: string,
  schema: z.ZodType<T>,
  onInvalid?: () => void,
): Promise<T | undefined> {
  const text = await ifExists(readFile(path, "utf8"));
  if (text === undefined) return undefined;
  const { data } = schema.safeParse(parseJson(text));
  if (data === undefined) onInvalid?.();
  return data;
}

export interface PersistedJson<T> {
  /** The content of the file when it was opened; undefined if it was missing or invalid. */
  readonly before: T | undefined;
  /** Calls `value` when the write starts, so that the last write includes all changes. */
  readonly write: (value: () => T) => Promise<void>;
}

/** Reads the file once. Writes run one after the other. */
export async function openPersistedJson<T>(
  path: string,
  schema: z.ZodType<T>,
  log: Log,
  invalidMessage: string,
): Promise<PersistedJson<T>> {
  const inTurn = createSerializer();
  return {
    before: await readJson(path, schema, () => log.warn({ path }, invalidMessage)),
    write: (value) =>
      inTurn(async () => {
        await makeFolder(dirname(path));
        await writeFileAtomic(path, JSON.stringify(value()));
      }),
  };
}
