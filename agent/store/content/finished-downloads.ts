/** Files of a model that is not complete yet: fetched, published, and not to be fetched again after an interruption. */
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { SourceFailure } from "../../../src/hub/failure.ts";
import { isUnchanged, type OpenSource } from "../../../src/hub/source.ts";
import type { Validator } from "../../../src/hub/validator.ts";
import { systemCode, writeFileAtomic } from "../../../src/util/atomic-file.ts";
import type { StoreFile } from "../remote/download-context.ts";
import { validatorSchema } from "../remote/part.ts";
import { blobSize } from "./blobs.ts";
import { listFolder, type StoreLayout } from "./layout.ts";

export interface Content {
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly validator: Validator;
}

const finishedSchema = z.strictObject({
  sha256: z.string(),
  sizeBytes: z.number(),
  validator: validatorSchema,
});

export async function rememberFinished(layout: StoreLayout, key: string, content: Content): Promise<void> {
  await writeFileAtomic(pathOf(layout, key), JSON.stringify(content));
}

export async function forgetFinished(layout: StoreLayout, key: string): Promise<void> {
  await rm(pathOf(layout, key), { force: true });
}

/** The content if it was finished before, is still on disk, and the source says that it did not change. */
export async function findFinished(
  layout: StoreLayout,
  file: StoreFile,
  key: string,
  { source, signal }: { readonly source: OpenSource; readonly signal: AbortSignal },
): Promise<Content | undefined> {
  if (file.sha256 !== undefined) return undefined;
  const known = await read(pathOf(layout, key));
  if (known === undefined || (await blobSize(layout, known.sha256)) !== known.sizeBytes) return undefined;
  try {
    const isSame = await isUnchanged(source, file.url, known.validator, signal);
    return isSame ? known : undefined;
  } catch (error) {
    // No answer is no proof: the download itself then says what is wrong.
    if (error instanceof SourceFailure) return undefined;
    throw error;
  }
}

/** Checksums of all of them. */
export async function finishedContents(layout: StoreLayout): Promise<readonly string[]> {
  const names = (await listFolder(layout.partial)).filter((name) => name.endsWith(".finished"));
  const all = await Promise.all(names.map((name) => read(join(layout.partial, name))));
  return all.flatMap((content) => (content === undefined ? [] : [content.sha256]));
}

async function read(path: string): Promise<Content | undefined> {
  try {
    const parsed = finishedSchema.safeParse(JSON.parse(await readFile(path, "utf8")));
    return parsed.success ? parsed.data : undefined;
  } catch (error) {
    if (systemCode(error) === "ENOENT" || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function pathOf(layout: StoreLayout, key: string): string {
  return join(layout.partial, `${key}.finished`);
}
