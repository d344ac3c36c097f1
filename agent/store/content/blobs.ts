/** Stores content by checksum, and makes views: folders of links with the names that engines expect. */
import { chmod, readlink, rename, rm, stat, symlink } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { ifExists, syncPath, systemCode } from "../../../src/util/atomic-file.ts";
import { listFolder, makeFolder } from "../../../src/util/folder.ts";
import type { StoreLayout } from "./layout.ts";

/** Size of a blob in bytes; undefined if the blob does not exist. */
export async function blobSize(layout: StoreLayout, sha256: string): Promise<number | undefined> {
  return (await ifExists(stat(blobPath(layout, sha256))))?.size;
}

export function blobPath(layout: StoreLayout, sha256: string): string {
  return join(layout.blobs, sha256.toLowerCase());
}

/** Moves a complete, synced part to its blob. */
export async function publishBlob(layout: StoreLayout, sha256: string, partPath: string): Promise<void> {
  const target = blobPath(layout, sha256);
  await chmod(partPath, 0o444);
  await rename(partPath, target);
  await syncPath(layout.blobs);
}

/** Creates the links of a view that are missing or point elsewhere. An intact view costs one `readlink` per file. */
export async function publishView(
  layout: StoreLayout,
  view: string,
  files: readonly { readonly name: string; readonly sha256: string }[],
): Promise<void> {
  const folder = join(layout.views, view);
  let isChanged = false;
  for (const { name, sha256 } of files) {
    const link = join(folder, name);
    // Relative, so that the whole store can be moved.
    const target = relative(dirname(link), blobPath(layout, sha256));
    if ((await readlink(link).catch(() => undefined)) === target) continue;
    await makeFolder(dirname(link));
    await rm(link, { recursive: true, force: true });
    await symlink(target, link).catch((error: unknown) => {
      // Another replica of the same model created the link first.
      if (systemCode(error) !== "EEXIST") throw error;
    });
    isChanged = true;
  }
  if (!isChanged) return;
  await syncPath(folder);
  await syncPath(layout.views);
}

export async function removeBlob(layout: StoreLayout, sha256: string): Promise<void> {
  await rm(blobPath(layout, sha256), { force: true });
}

/** Moves content to quarantine if its blob still has this inode. Engines that have the blob open can still read it. */
export async function quarantineBlob(layout: StoreLayout, sha256: string, inode: number): Promise<boolean> {
  const path = blobPath(layout, sha256);
  const info = await stat(path).catch(() => undefined);
  if (info?.ino !== inode) return false;
  await makeFolder(layout.quarantine);
  await rename(path, join(layout.quarantine, sha256));
  await syncPath(layout.blobs);
  return true;
}

export async function removeView(layout: StoreLayout, view: string): Promise<void> {
  await rm(join(layout.views, view), { recursive: true, force: true });
}

/** Removes digests and origins of content that was removed. */
export async function sweepFacts(layout: StoreLayout): Promise<void> {
  const stored = new Set(await listFolder(layout.blobs));
  for (const folder of [layout.prefixes, layout.origins])
    for (const name of await listFolder(folder))
      if (!stored.has(name)) await rm(join(folder, name), { force: true });
}

/** Lists every blob with its size and modification time. */
export async function listBlobs(
  layout: StoreLayout,
): Promise<{ sha256: string; sizeBytes: number; modifiedMs: number }[]> {
  const found = [];
  for (const sha256 of await listFolder(layout.blobs)) {
    const info = await stat(join(layout.blobs, sha256)).catch(() => undefined);
    if (info !== undefined) found.push({ sha256, sizeBytes: info.size, modifiedMs: info.mtimeMs });
  }
  return found;
}
