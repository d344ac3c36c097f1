/** Content by checksum, and folders of links that give it the names engines expect. */
import { randomUUID } from "node:crypto";
import { chmod, mkdir, rename, rm, stat, symlink } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { syncFolder, systemCode } from "../atomic.ts";
import { type Layout, namesIn } from "./layout.ts";

/** Size of a blob, or undefined when it is not there. */
export async function blobSize(layout: Layout, sha256: string): Promise<number | undefined> {
  return sizeOf(blobPath(layout, sha256));
}

export function blobPath(layout: Layout, sha256: string): string {
  return join(layout.blobs, sha256.toLowerCase());
}

/** Moves a complete, synced part into place; a copy that is there already wins. */
export async function publishBlob(layout: Layout, sha256: string, partPath: string): Promise<void> {
  const target = blobPath(layout, sha256);
  await chmod(partPath, 0o444);
  await rename(partPath, target);
  await syncFolder(layout.blobs);
}

/** Makes the folder of links unless it is there; returns its path. */
export async function publishView(
  layout: Layout,
  view: string,
  files: readonly { readonly name: string; readonly sha256: string }[],
): Promise<string> {
  const target = join(layout.views, view);
  if ((await sizeOf(target)) !== undefined) return target;
  const temporary = join(layout.views, `${view}.${randomUUID()}.tmp`);
  for (const file of files) {
    const link = join(temporary, file.name);
    await mkdir(dirname(link), { recursive: true, mode: 0o700 });
    // Relative, so that the whole store can be moved; computed from the final place.
    const from = dirname(join(target, file.name));
    await symlink(relative(from, blobPath(layout, file.sha256)), link);
  }
  try {
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    if (systemCode(error) !== "ENOTEMPTY" && systemCode(error) !== "EEXIST") throw error;
  }
  await syncFolder(layout.views);
  return target;
}

export async function removeBlob(layout: Layout, sha256: string): Promise<void> {
  await rm(blobPath(layout, sha256), { force: true });
}

export async function removeView(layout: Layout, view: string): Promise<void> {
  await rm(join(layout.views, view), { recursive: true, force: true });
}

/** Every blob with its size and age mark. */
export async function listBlobs(
  layout: Layout,
): Promise<{ sha256: string; sizeBytes: number; modifiedMs: number }[]> {
  const found = [];
  for (const sha256 of await namesIn(layout.blobs)) {
    const info = await stat(join(layout.blobs, sha256)).catch(() => undefined);
    if (info !== undefined) found.push({ sha256, sizeBytes: info.size, modifiedMs: info.mtimeMs });
  }
  return found;
}

async function sizeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
