/** A folder as tar.gz with the same bytes whenever and wherever it is made: sorted names, one date, one owner. */
import { readFileSync, statSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import { pack } from "tar-stream";
import { MANIFEST } from "../../launchd/release/manifest.ts";
import { gzipped } from "../images/layer.ts";
import { filesIn } from "./folder.ts";

/** All files of the folder below `top`, with the same date each. */
export async function packFolder(folder: string, top: string, file: string, date: Date): Promise<void> {
  const archive = pack();
  const bytes = buffer(archive);
  for (const name of [MANIFEST, ...filesIn(folder)]) {
    const from = path.join(folder, name);
    const mode = (statSync(from).mode & 0o111) === 0 ? 0o644 : 0o755;
    const header = { name: `${top}/${name}`, mode, mtime: date, uid: 0, gid: 0 };
    archive.entry(header, readFileSync(from));
  }
  archive.finalize();
  await writeFile(file, gzipped(await bytes));
}
