/** Where things are in the store's folder, and the keys they are filed under. */
import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { plainUrl } from "../../../src/hub/failure.ts";
import { systemCode } from "../../../src/util/atomic-file.ts";
import { makeFolder } from "../../../src/util/folder.ts";

export interface StoreLayout {
  readonly dir: string;
  /** Content by checksum. */
  readonly blobs: string;
  /** Which source gave which content. */
  readonly refs: string;
  /** One folder per set of files, with links that bear the names engines expect. */
  readonly views: string;
  readonly partial: string;
  /** Content that does not match its checksum any more: kept aside for a while, never served. */
  readonly quarantine: string;
  /** Digests of the prefixes of content, by checksum: what other hosts verify the chunks with that they get from here. */
  readonly prefixes: string;
  /** Where each content came from, by checksum. */
  readonly origins: string;
  /** How fast engines were with which content. */
  readonly speeds: string;
  /** When which content was last hashed, and what was found damaged. */
  readonly verified: string;
  /** Sources that were pinned on this host. */
  readonly pins: string;
}

export function storeLayoutOf(dir: string): StoreLayout {
  return {
    dir,
    blobs: join(dir, "blobs", "sha256"),
    refs: join(dir, "refs"),
    views: join(dir, "views"),
    partial: join(dir, "partial"),
    quarantine: join(dir, "quarantine"),
    prefixes: join(dir, "prefixes"),
    origins: join(dir, "origins"),
    speeds: join(dir, "speeds.json"),
    verified: join(dir, "verified.json"),
    pins: join(dir, "pins.json"),
  };
}

/** Also before each fetch and repair: users delete folders under a running agent. */
export async function makeFolders(layout: StoreLayout): Promise<void> {
  const { blobs, refs, views, partial, prefixes, origins } = layout;
  for (const folder of [blobs, refs, views, partial, prefixes, origins]) await makeFolder(folder);
}

/** Of a folder that is not there: none. */
export async function listFolder(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return [];
    throw error;
  }
}

/** What one content is filed under while it is fetched: bytes of one address never complete those of another. */
export function contentKey(file: { readonly url: URL; readonly sha256?: string | undefined }): string {
  return file.sha256 === undefined
    ? fileKey(`url ${file.url.href}`)
    : fileKey(`sha256 ${file.sha256.toLowerCase()} ${plainUrl(file.url)}`);
}

/** The folder of a set of names and contents. */
export function viewKey(files: readonly { readonly name: string; readonly sha256: string }[]): string {
  return fileKey(JSON.stringify(files.map(({ name, sha256 }) => [name, sha256])));
}

/** What things are filed under. */
export function fileKey(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 40);
}
