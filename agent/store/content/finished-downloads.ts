/** Records the files of an incomplete model that are already published, so that an interrupted fetch does not repeat them. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import type { Validator } from "../../../src/hub/validator.ts";
import { writeFileAtomic } from "../../../src/util/atomic-file.ts";
import { listFolder } from "../../../src/util/folder.ts";
import type { StoreLayout } from "./layout.ts";
import { readJson } from "./persisted-json.ts";

export interface Content {
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly validator: Validator;
}

export const validatorSchema = z.strictObject({
  etag: z.string().optional(),
  lastModified: z.string().optional(),
  totalBytes: z.number().int().nonnegative().optional(),
});

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

/** The content that was recorded under the key, if any. */
export async function readFinished(layout: StoreLayout, key: string): Promise<Content | undefined> {
  return readJson(pathOf(layout, key), finishedSchema);
}

/** Checksums of all recorded files. */
export async function finishedContents(layout: StoreLayout): Promise<readonly string[]> {
  const names = (await listFolder(layout.partial)).filter((name) => name.endsWith(".finished"));
  const all = await Promise.all(names.map((name) => readJson(join(layout.partial, name), finishedSchema)));
  return all.flatMap((content) => (content === undefined ? [] : [content.sha256]));
}

function pathOf(layout: StoreLayout, key: string): string {
  return join(layout.partial, `${key}.finished`);
}
