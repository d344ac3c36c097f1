/** A folder as tar.gz with the same bytes whenever and wherever it is made: sorted names, one date, one owner. */
import { createReadStream, createWriteStream, statSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { pack } from "tar-stream";
import { MANIFEST } from "../../launchd/release/manifest.ts";
import { filesIn } from "./folder.ts";

/** Byte 9 of gzip names the system that wrote it; 255 is "unknown". */
const GZIP_SYSTEM_BYTE = 9;

/** All files of the folder below `top`, with the same date each. */
export async function packFolder(folder: string, top: string, file: string, date: Date): Promise<void> {
  const archive = pack();
  const written = pipeline(archive, createGzip({ level: 9 }), createWriteStream(file));
  for (const name of [MANIFEST, ...filesIn(folder)])
    await addFile(archive, path.join(folder, name), `${top}/${name}`, date);
  archive.finalize();
  await written;
  const bytes = await readFile(file);
  bytes[GZIP_SYSTEM_BYTE] = 255;
  await writeFile(file, bytes);
}

async function addFile(
  archive: ReturnType<typeof pack>,
  from: string,
  name: string,
  mtime: Date,
): Promise<void> {
  const { size, mode } = statSync(from);
  const header = { name, size, mode: (mode & 0o111) === 0 ? 0o644 : 0o755, mtime, uid: 0, gid: 0 };
  await pipeline(createReadStream(from), archive.entry(header));
}
