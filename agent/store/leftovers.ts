/** What abandoned downloads left: parts that no fetch uses, and blobs that nothing names. */
import { rm, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Log } from "../../src/util/ports.ts";
import { listBlobs } from "./content/blobs.ts";
import { finishedContents } from "./content/finished-downloads.ts";
import { listFolder, type StoreLayout } from "./content/layout.ts";
import type { BeginFetch } from "./download/fetch-content.ts";
import type { Refs } from "./refs.ts";

export interface Leftovers {
  /** Keeps the part of this key, and what its callers publish. */
  readonly beginFetch: BeginFetch;
  /** Oldest first, until there is room. Not while content is taken into use. `keepsBlobs`: parts only. */
  readonly remove: (isEnough: () => Promise<boolean>, keepsBlobs: boolean) => Promise<void>;
}

const PART = ".part";

export function createLeftovers(
  layout: StoreLayout,
  refs: Refs,
  holds: ReadonlyMap<string, readonly string[]>,
  log: Log,
): Leftovers {
  const running = new Map<string, { callers: number; readonly contents: Set<string> }>();
  const isPartUsed = (name: string): boolean => running.has(name.slice(0, -PART.length));
  const isBlobUsed = (sha256: string): boolean =>
    refs.all().some(({ files }) => files.some((file) => file.sha256 === sha256)) ||
    [...holds.values()].some((held) => held.includes(sha256)) ||
    [...running.values()].some(({ contents }) => contents.has(sha256));
  return {
    beginFetch: (key) => {
      const fetches = running.get(key) ?? { callers: 0, contents: new Set() };
      running.set(key, fetches);
      fetches.callers += 1;
      return {
        publish: (sha256) => fetches.contents.add(sha256),
        end: () => {
          fetches.callers -= 1;
          if (fetches.callers === 0) running.delete(key);
        },
      };
    },
    remove: async (isEnough, keepsBlobs) => {
      // Refs of a newer version may name any of them.
      const keepsAll = keepsBlobs || refs.hasNewer;
      for (const { path, isUsed } of await unnamedIn(layout, keepsAll, { isPartUsed, isBlobUsed })) {
        if (await isEnough()) return;
        if (isUsed()) continue;
        await rm(path, { force: true });
        log.info({ file: basename(path) }, "removed what an abandoned download left, to make room");
      }
    },
  };
}

interface Unnamed {
  readonly path: string;
  readonly modifiedMs: number;
  /** Asked right before the removal: a fetch may have begun since. */
  readonly isUsed: () => boolean;
}

async function unnamedIn(
  layout: StoreLayout,
  keepsBlobs: boolean,
  { isPartUsed, isBlobUsed }: Record<"isPartUsed" | "isBlobUsed", (name: string) => boolean>,
): Promise<readonly Unnamed[]> {
  const found: Unnamed[] = [];
  for (const name of await listFolder(layout.partial)) {
    const path = join(layout.partial, name);
    const info = name.endsWith(PART) ? await stat(path).catch(() => undefined) : undefined;
    if (info !== undefined) found.push({ path, modifiedMs: info.mtimeMs, isUsed: () => isPartUsed(name) });
  }
  const finished = new Set(await finishedContents(layout));
  for (const { sha256, modifiedMs } of keepsBlobs ? [] : await listBlobs(layout))
    if (!finished.has(sha256))
      found.push({ path: join(layout.blobs, sha256), modifiedMs, isUsed: () => isBlobUsed(sha256) });
  return found.sort((a, b) => a.modifiedMs - b.modifiedMs);
}
