/** A cache of layers and tars. Each name holds the key of its content, so no entry is ever stale. */
import { readdirSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { hash } from "../../src/util/hash.ts";
import { cacheDir } from "../setup/cache.mjs";

const UNUSED_MS = 60 * 60_000;

export function imagesCache(folder: "debian" | "layers" | "tars"): string {
  return path.join(cacheDir(), "images", folder);
}

/** Pure: short, and different for every content. */
export function cacheKey(...parts: readonly unknown[]): string {
  return hash(JSON.stringify(parts), 16);
}

/** Every bundle makes a layer and a tar of its own. Another run may be reading those that are not old. */
export function removeOld(folder: string, prefix: string): void {
  for (const name of readdirSync(folder).filter((one) => one.startsWith(prefix))) {
    const file = path.join(folder, name);
    const { mtimeMs } = statSync(file, { throwIfNoEntry: false }) ?? {};
    if (mtimeMs !== undefined && mtimeMs < Date.now() - UNUSED_MS)
      rmSync(file, { recursive: true, force: true });
  }
}
