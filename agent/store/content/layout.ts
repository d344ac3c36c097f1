/** The paths in the store's folder, and the keys that name its files. */
import { join } from "node:path";
import { plainUrl } from "../../../src/hub/failure.ts";
import { makeFolder } from "../../../src/util/folder.ts";
import { hash } from "../../../src/util/hash.ts";

export interface StoreLayout {
  readonly dir: string;
  /** Contents by checksum. */
  readonly blobs: string;
  /** The index: the contents of each source. */
  readonly refs: string;
  /** One folder per set of files, with links that have the names engines expect. */
  readonly views: string;
  readonly partial: string;
  /** Content that no longer matches its checksum: retained for a while, never served. */
  readonly quarantine: string;
  /** Digests of content prefixes, by checksum. Other hosts verify the chunks they download from this host with them. */
  readonly prefixes: string;
  /** Origin of each content, by checksum. */
  readonly origins: string;
  /** Measured engine speed for each content. */
  readonly speeds: string;
  /** Time of the last verification of each content, and damaged contents. */
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

/** Called at start and before each fetch and repair: users delete folders while the agent runs. */
export async function makeFolders(layout: StoreLayout): Promise<void> {
  const { blobs, refs, views, partial, prefixes, origins } = layout;
  for (const folder of [blobs, refs, views, partial, prefixes, origins]) await makeFolder(folder);
}

/** The key of a content during its download. It includes the address: bytes of one address never complete those of another. */
export function contentKey(file: { readonly url: URL; readonly sha256?: string | undefined }): string {
  return file.sha256 === undefined
    ? fileKey(`url ${file.url.href}`)
    : fileKey(`sha256 ${file.sha256.toLowerCase()} ${plainUrl(file.url)}`);
}

/** The name of the view folder for a set of file names and contents. */
export function viewKey(files: readonly { readonly name: string; readonly sha256: string }[]): string {
  return fileKey(JSON.stringify(files.map(({ name, sha256 }) => [name, sha256])));
}

/** A digest that is short enough for a file name. */
export function fileKey(text: string): string {
  return hash(text, 40);
}
