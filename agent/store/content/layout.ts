/** Where things are in the store's folder, and the keys they are filed under. */
import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { plainUrl } from "../../../src/hub/failure.ts";
import { systemCode } from "../../../src/util/atomic-file.ts";
import { makeFolder } from "../../../src/util/folder.ts";
import type { ModelRequest } from "../types.ts";

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

/**
 * What a request is filed under: the same source with other files is another model. A stated checksum is part of it,
 * or a request with the checksum of other content could substitute it for a source that others trust. So is the Secret: it
 * chooses the endpoint, and what it opens is not for those who name another one.
 */
export function requestKey(request: ModelRequest): string {
  const { source, files = [], mmproj = "", format = "gguf", sha256 = "" } = request;
  const { quantization, revision, changeMarker, secret } = request;
  // Absent ones add nothing: what earlier versions stored keeps its key.
  const marked = changeMarker === undefined ? [] : [changeMarker];
  const isPlain = quantization === undefined && revision === undefined && changeMarker === undefined;
  const chosen = isPlain ? [] : [quantization, revision, ...marked];
  const asker = secret === undefined ? [] : [{ secret }];
  return digest(JSON.stringify([source, files, mmproj, format, sha256.toLowerCase(), ...chosen, ...asker]));
}

/** What one content is filed under while it is fetched: bytes of one address never complete those of another. */
export function contentKey(file: { readonly url: URL; readonly sha256?: string | undefined }): string {
  return file.sha256 === undefined
    ? digest(`url ${file.url.href}`)
    : digest(`sha256 ${file.sha256.toLowerCase()} ${plainUrl(file.url)}`);
}

/** The folder of a set of names and contents. */
export function viewKey(files: readonly { readonly name: string; readonly sha256: string }[]): string {
  return digest(JSON.stringify(files.map(({ name, sha256 }) => [name, sha256])));
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 40);
}
