/** The program's files of the image, as a folder. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { IMAGE_CONFIG, programEntries } from "../../scripts/images/ours.ts";

/** With `bundle` in place of dist/; returns the program to run there. */
export function layOut(folder: string, bundle: string): string {
  for (const entry of programEntries(bundle)) {
    if (entry.type !== "file") continue;
    const file = path.join(folder, entry.name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, entry.content, { mode: entry.mode });
  }
  return path.join(folder, IMAGE_CONFIG.Entrypoint.at(-1) ?? "");
}
