/** Entries of an image layer, with the same order, dates and owner wherever they are made. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";

interface Named {
  /** Relative to the root, without "./" and without a slash at the end. */
  readonly name: string;
}

export type LayerEntry = Named &
  (
    | { readonly type: "folder"; readonly mode: number }
    | { readonly type: "file"; readonly mode: number; readonly content: Buffer }
    | { readonly type: "link"; readonly target: string }
  );

const FOLDER_MODE = 0o755;

/** All files below `folder`, as entries below `to`. A file is executable where its owner may execute it. */
export function entriesIn(folder: string, to: string): LayerEntry[] {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return names.flatMap((name) => {
    const file = path.join(folder, name);
    return statSync(file).isFile() ? [fileEntry(file, path.posix.join(to, name))] : [];
  });
}

export function fileEntry(file: string, name: string): LayerEntry {
  const mode = (statSync(file).mode & 0o100) === 0 ? 0o644 : 0o755;
  return { type: "file", name, mode, content: readFileSync(file) };
}

export function textEntry(name: string, text: string): LayerEntry {
  return { type: "file", name, mode: 0o644, content: Buffer.from(text) };
}

/**
 * Sorted, with every parent folder, each name once. Throws where two entries that are not the same folder have one name, and
 * where a parent is no folder: a runtime would follow such a link, or refuse the layer.
 */
export function completed(entries: readonly LayerEntry[]): readonly LayerEntry[] {
  const byName = new Map<string, LayerEntry>();
  for (const entry of entries) {
    const known = byName.get(entry.name);
    if (known !== undefined && !(known.type === "folder" && entry.type === "folder"))
      throw new Error(`two entries of the layer have the name ${entry.name}`);
    byName.set(entry.name, known ?? entry);
  }
  for (const { name } of entries) addParents(name, byName);
  return [...byName.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
}

function addParents(name: string, byName: Map<string, LayerEntry>): void {
  for (let parent = path.posix.dirname(name); parent !== "."; parent = path.posix.dirname(parent)) {
    const known = byName.get(parent);
    if (known === undefined) byName.set(parent, { type: "folder", name: parent, mode: FOLDER_MODE });
    else if (known.type !== "folder") throw new Error(`${name} is below ${parent}, which is a ${known.type}`);
  }
}
