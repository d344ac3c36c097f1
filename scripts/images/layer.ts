/** A layer as a blob: a tar whose bytes follow from its entries alone, uncompressed or compressed by gzip. */
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { type Header, pack } from "tar-stream";
import { sha256Hex } from "../../src/util/hash.ts";
import { completed, type LayerEntry } from "./entries.ts";

/** Date of every entry: layers of unchanged files keep their digest from release to release. */
export const ENTRY_DATE = new Date("2000-01-01T00:00:00Z");

/** Byte 9 of gzip names the system that wrote it; 255 is "unknown". */
const GZIP_SYSTEM_BYTE = 9;

export type Compression = "none" | "gzip";

export interface BuiltLayer {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  /** The digest of the uncompressed tar. */
  readonly diffId: string;
  readonly uncompressedSize: number;
  /** The blob. */
  readonly file: string;
}

export interface LayerOptions {
  readonly compression: Compression;
  /** A folder that is the layer's own: found complete, it is used as it is. */
  readonly folder: string;
}

/** From `folder` where an earlier call filled it; `entriesOf` is then not called. */
export async function cachedLayer(
  { compression, folder }: LayerOptions,
  entriesOf: () => Promise<readonly LayerEntry[]> | readonly LayerEntry[],
): Promise<BuiltLayer> {
  const known = readLayer(folder);
  if (known !== undefined) return known;
  const entries = completed(await entriesOf());
  const tar = await packTar(
    entries.map((entry) => ({
      header: headerOf(entry),
      content: entry.type === "file" ? entry.content : undefined,
    })),
  );
  const blob = compression === "none" ? tar : gzipped(tar);
  mkdirSync(path.dirname(folder), { recursive: true });
  const temporary = mkdtempSync(`${folder}.`);
  try {
    writeFileSync(path.join(temporary, "blob"), blob);
    const suffix = compression === "none" ? "" : `+${compression}`;
    const facts = {
      mediaType: `application/vnd.oci.image.layer.v1.tar${suffix}`,
      digest: contentDigestOf(blob),
      size: blob.length,
      diffId: contentDigestOf(tar),
      uncompressedSize: tar.length,
    };
    writeFileSync(path.join(temporary, "layer.json"), `${JSON.stringify(facts)}\n`);
    publish(temporary, folder);
    return { ...facts, file: path.join(folder, "blob") };
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

export function contentDigestOf(content: string | Buffer): string {
  return `sha256:${sha256Hex(content)}`;
}

type TarHeader = Partial<Header> & Pick<Header, "name">;

/** A tar of the entries in this order, which all belong to root and have one date. */
export async function packTar(
  entries: Iterable<{ readonly header: TarHeader; readonly content?: Buffer | string }>,
  mtime = ENTRY_DATE,
): Promise<Buffer> {
  const archive = pack();
  const bytes = buffer(archive);
  for (const { header, content } of entries) {
    const full = { mtime, uid: 0, gid: 0, ...header };
    if (content === undefined) archive.entry(full);
    else archive.entry(full, content);
  }
  archive.finalize();
  return bytes;
}

function headerOf(entry: LayerEntry): TarHeader {
  const { name } = entry;
  switch (entry.type) {
    case "folder":
      return { name: `${name}/`, type: "directory", mode: entry.mode };
    case "link":
      return { name, type: "symlink", linkname: entry.target, mode: 0o777 };
    case "file":
      return { name, type: "file", mode: entry.mode, size: entry.content.length };
    default:
      return entry satisfies never;
  }
}

/** Pinned by Node's version: its zlib writes the same bytes on every processor. */
export function gzipped(tar: Buffer): Buffer {
  const bytes = gzipSync(tar, { level: 9 });
  bytes[GZIP_SYSTEM_BYTE] = 255;
  return bytes;
}

function readLayer(folder: string): BuiltLayer | undefined {
  try {
    const facts = JSON.parse(readFileSync(path.join(folder, "layer.json"), "utf8"));
    return { ...facts, file: path.join(folder, "blob") };
  } catch {
    return undefined;
  }
}

/** Another process may have been faster: its layer has the same bytes. */
function publish(temporary: string, folder: string): void {
  try {
    renameSync(temporary, folder);
  } catch (error) {
    if (readLayer(folder) === undefined) throw error;
  }
}
