/** Debian packages as entries of a layer: unpacked in memory, none of their scripts run, no right of root needed. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { buffer, text } from "node:stream/consumers";
import { extract } from "tar-stream";
import { ReleaseError } from "../project/release-error.ts";
import { findOnPath } from "../setup/command.mjs";
import { type LayerEntry, textEntry } from "./entries.ts";

/** What Debian's tools for scanners and distroless images agree on: one file per package, without a package manager. */
const STATUS_FOLDER = "var/lib/dpkg/status.d";

/**
 * The entries of all archives, base-files first: its links (`bin` to `usr/bin`) are what the rest relies on. Files that two
 * packages share are those of the last one, as dpkg's `Replaces` means it.
 */
export async function entriesOfPackages(archives: readonly string[]): Promise<readonly LayerEntry[]> {
  const isBase = (file: string) => path.basename(file).startsWith("base-files_");
  const sorted = [...archives].sort((one, other) => Number(isBase(other)) - Number(isBase(one)));
  const byName = new Map<string, LayerEntry>();
  for (const archive of sorted) {
    for (const entry of await entriesOfPackage(archive)) byName.set(entry.name, entry);
  }
  return [...byName.values()];
}

async function entriesOfPackage(archive: string): Promise<LayerEntry[]> {
  const control = await output(archive, "--field", text);
  const [, name = "unknown"] = /^Package: (.+)$/m.exec(control) ?? [];
  const entries = await output(archive, "--fsys-tarfile", readTar);
  return [...entries, textEntry(`${STATUS_FOLDER}/${name}`, control)];
}

async function output<T>(
  archive: string,
  action: string,
  read: (stream: NodeJS.ReadableStream) => Promise<T>,
): Promise<T> {
  if (findOnPath("dpkg-deb") === undefined)
    throw new ReleaseError("dpkg-deb is not on PATH", "apt-get install dpkg, on a Mac brew install dpkg");
  const child = spawn("dpkg-deb", [action, archive], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "close");
  const result = await read(child.stdout);
  const [code] = await ended;
  if (code !== 0) throw new Error(`dpkg-deb ${action} ${archive} exited with ${code}`);
  return result;
}

/** Device files and the like are in no package that an image needs. */
async function readTar(stream: NodeJS.ReadableStream): Promise<LayerEntry[]> {
  const entries = new Map<string, LayerEntry>();
  const archive = extract();
  stream.pipe(archive);
  for await (const part of archive) {
    const { name: raw, type, mode = 0o644, linkname } = part.header;
    const name = path.posix.normalize(raw).replace(/\/$/, "");
    const content = await buffer(part);
    if (name === ".") continue;
    if (type === "directory") entries.set(name, { type: "folder", name, mode });
    else if (type === "symlink") entries.set(name, { type: "link", name, target: linkname ?? "" });
    else if (type === "file") entries.set(name, { type: "file", name, mode, content });
    else if (type === "link") entries.set(name, { ...linked(entries, linkname ?? ""), name });
    else throw new Error(`${name} is a ${type}, which images do not hold`);
  }
  return [...entries.values()];
}

/** A second name of a file becomes a copy. */
function linked(entries: ReadonlyMap<string, LayerEntry>, target: string): LayerEntry {
  const entry = entries.get(path.posix.normalize(target));
  if (entry === undefined) throw new Error(`the archive links to ${target}, which it does not hold`);
  return entry;
}
