/** Tracks the contents in use and the size of the store, and evicts unused models when space is needed. */
import { rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { publicSource } from "../../src/models/source/parse.ts";
import { listFolder } from "../../src/util/folder.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import type { Log } from "../../src/util/ports.ts";
import { createSerializer } from "../../src/util/serializer.ts";
import { listBlobs, quarantineBlob, removeBlob, removeView } from "./content/blobs.ts";
import { finishedContents } from "./content/finished-downloads.ts";
import type { StoreLayout } from "./content/layout.ts";
import type { Ref, Refs } from "./content/refs.ts";
import type { BeginFetch } from "./download/fetch-content.ts";
import type { ModelRetention } from "./model-retention.ts";
import type { StoredModel, StoredModelInfo } from "./types.ts";

export interface RoomOptions {
  /** Absent: every unused model that is not pinned may be evicted. */
  readonly mayEvict?: (ref: Ref) => boolean;
  /** Removes no model if all evictable models together would not free enough space. */
  readonly allOrNothing?: boolean;
  /** Removes no content, only unfinished parts of abandoned downloads. */
  readonly keepsBlobs?: boolean;
}

export interface Usage {
  readonly hold: (owner: string, contents: readonly string[]) => void;
  readonly release: (owner: string) => void;
  /** Runs `find` while no content is removed, so that `owner` holds the result before it can be removed. */
  readonly take: <T extends { readonly contents: readonly string[] }>(
    owner: string,
    find: () => Promise<T | undefined>,
  ) => Promise<T | undefined>;
  readonly isInUse: (ref: Ref) => boolean;
  /** Owners that hold content of the ref. */
  readonly ownersOf: (ref: Ref) => readonly string[];
  readonly beginFetch: BeginFetch;
  readonly usedBytes: () => Promise<number>;
  /** Bytes of parts and of the finished files of incomplete models. */
  readonly unfinishedBytes: () => Promise<number>;
  /** Returns false if the ref is in use. */
  readonly removeRef: (ref: Ref) => Promise<boolean>;
  /**
   * Frees bytes in this order: quarantine, leftovers of abandoned downloads (oldest first), unused models (least recently
   * used first, prefetched ones last). Pinned models are never removed.
   */
  readonly makeRoom: (bytes: number, options?: RoomOptions) => Promise<readonly StoredModelInfo[]>;
  /** Moves damaged content to quarantine if its blob still has this inode. Its models are fetched again on the next request. */
  readonly quarantine: (sha256: string, inode: number) => Promise<boolean>;
  /** Removes leftovers of crashed or abandoned runs. */
  readonly sweep: (nowMs: number) => Promise<void>;
}

const PART = ".part";
const STALE_MS = 7 * 24 * 3_600_000;
const HOUR_MS = 3_600_000;

export function createUsage(layout: StoreLayout, refs: Refs, retention: ModelRetention, log: Log): Usage {
  const holds = new Map<string, readonly string[]>();
  const ownersOf = ({ files }: Ref): readonly string[] =>
    [...holds].flatMap(([owner, contents]) =>
      files.some(({ sha256 }) => contents.includes(sha256)) ? [owner] : [],
    );
  const isInUse = (ref: Ref): boolean => ownersOf(ref).length > 0;
  const inTurn = createSerializer();
  const leftovers = createLeftovers(layout, refs, holds, log);
  const removeUnused = async (ref: Ref): Promise<boolean> => {
    if (isInUse(ref)) return false;
    await refs.remove(ref.key);
    const others = refs.all();
    if (!others.some((other) => other.view === ref.view)) await removeView(layout, ref.view);
    const named = contentsNamedBy(others);
    for (const file of ref.files) if (!named.has(file.sha256)) await removeBlob(layout, file.sha256);
    return true;
  };
  const removeRef = (ref: Ref): Promise<boolean> => inTurn(() => removeUnused(ref));
  const usedBytes = async (): Promise<number> => {
    const blobs = await listBlobs(layout);
    const others = (await folderBytes(layout.partial)) + (await folderBytes(layout.quarantine));
    return blobs.reduce((sum, blob) => sum + blob.sizeBytes, 0) + others;
  };
  return {
    hold: (owner, contents) => holds.set(owner, contents),
    release: (owner) => holds.delete(owner),
    take: (owner, find) =>
      inTurn(async () => {
        const found = await find();
        if (found !== undefined) holds.set(owner, [...(holds.get(owner) ?? []), ...found.contents]);
        return found;
      }),
    isInUse,
    ownersOf,
    beginFetch: leftovers.beginFetch,
    usedBytes,
    unfinishedBytes: () => unfinishedBytesOf(layout, refs),
    removeRef,
    quarantine: (sha256, inode) => inTurn(() => quarantineBlob(layout, sha256, inode)),
    makeRoom: async (bytes, { mayEvict = () => true, allOrNothing = false, keepsBlobs = false } = {}) => {
      const removed: StoredModelInfo[] = [];
      const before = await usedBytes();
      await emptyFolder(layout.quarantine);
      const isEnough = async () => before - (await usedBytes()) >= bytes;
      await inTurn(() => leftovers.remove(isEnough, keepsBlobs));
      if (keepsBlobs) return removed;
      const rank = (ref: Ref) => (retention.isPrefetched(ref) ? 1 : 0);
      const oldestFirst = refs
        .all()
        .filter((ref) => !isInUse(ref) && !retention.isPinned(ref) && mayEvict(ref))
        .sort((a, b) => rank(a) - rank(b) || a.lastUsedMs - b.lastUsedMs);
      const left = bytes - (before - (await usedBytes()));
      if (allOrNothing && freedBy(oldestFirst, refs.all()) < left) return [];
      for (const ref of oldestFirst) {
        if (await isEnough()) break;
        // A replica may have started to use the model while others were removed.
        if (!(await removeRef(ref))) continue;
        log.info(
          { source: publicSource(ref.source), sha256: ref.files[0]?.sha256 },
          "removed an unused model to make room",
        );
        removed.push(describeRef(ref, { inUse: false, pinned: false, damaged: false }));
      }
      return removed;
    },
    sweep: (nowMs) => sweep(layout, refs, nowMs, log),
  };
}

async function unfinishedBytesOf(layout: StoreLayout, refs: Refs): Promise<number> {
  const named = contentsNamedBy(refs.all());
  const finished = new Set(await finishedContents(layout));
  const files = (await listBlobs(layout)).filter(({ sha256 }) => finished.has(sha256) && !named.has(sha256));
  return files.reduce((sum, { sizeBytes }) => sum + sizeBytes, await folderBytes(layout.partial));
}

/** Bytes that removing these refs frees: the content that no other ref names. */
function freedBy(removed: readonly Ref[], all: readonly Ref[]): number {
  const retained = contentsNamedBy(all.filter((ref) => !removed.includes(ref)));
  return sizeOfContents(removed, (sha256) => !retained.has(sha256));
}

function contentsNamedBy(refs: readonly Ref[]): ReadonlySet<string> {
  return new Set(refs.flatMap(({ files }) => files.map(({ sha256 }) => sha256)));
}

/** Bytes of the contents that the refs name, each content counted once. */
export function sizeOfContents(refs: readonly Ref[], counts = (_sha256: string) => true): number {
  const sizes = new Map(refs.flatMap(({ files }) => files.map((file) => [file.sha256, file.sizeBytes])));
  return [...sizes].reduce((sum, [sha256, bytes]) => (counts(sha256) ? sum + bytes : sum), 0);
}

/** Checksums of all files of the models. Files used in place have none, and are never removed. */
export function contentsOf(...models: readonly (StoredModel | undefined)[]): readonly string[] {
  const files = models.flatMap((model) => model?.files ?? []);
  return files.flatMap(({ sha256 }) => (sha256 === undefined ? [] : [sha256]));
}

/** The entry of a ref in Host.status. */
export function describeRef(
  ref: Ref,
  flags: Pick<StoredModelInfo, "inUse" | "pinned" | "damaged">,
): StoredModelInfo {
  return {
    source: publicSource(ref.source),
    sha256: ref.files[0]?.sha256 ?? "",
    sizeBytes: ref.files.reduce((sum, file) => sum + file.sizeBytes, 0),
    fetchedAt: ref.fetchedAt,
    lastUsedAt: isoSeconds(Math.floor((ref.lastUsedMs || Date.parse(ref.fetchedAt)) / HOUR_MS) * HOUR_MS),
    ...flags,
  };
}

async function sweep(layout: StoreLayout, refs: Refs, nowMs: number, log: Log): Promise<void> {
  // Content in quarantine retains the mtime of its download; its ctime is the time of the move.
  const stale = { [layout.partial]: "mtimeMs", [layout.quarantine]: "ctimeMs" } as const;
  for (const folder of [layout.partial, layout.views, layout.quarantine]) {
    for (const name of await listFolder(folder)) {
      const path = join(folder, name);
      const since = stale[folder];
      const isStale = since !== undefined && (await ageMs(path, since, nowMs)) > STALE_MS;
      if (!isStale && !name.endsWith(".tmp")) continue;
      await rm(path, { recursive: true, force: true });
      log.info({ file: name }, "removed a leftover of an earlier download");
    }
  }
  const named = contentsNamedBy(refs.all());
  for (const blob of await listBlobs(layout)) {
    // A young blob without a ref may be a shard of a model that is still being fetched.
    const isUnnamed = !refs.hasNewer && !named.has(blob.sha256) && nowMs - blob.modifiedMs > STALE_MS;
    if (isUnnamed || !/^[0-9a-f]{64}$/.test(blob.sha256))
      await rm(join(layout.blobs, blob.sha256), { force: true });
  }
}

async function ageMs(path: string, since: "mtimeMs" | "ctimeMs", nowMs: number): Promise<number> {
  const info = await stat(path).catch(() => undefined);
  return info === undefined ? 0 : nowMs - info[since];
}

async function emptyFolder(folder: string): Promise<void> {
  for (const name of await listFolder(folder)) await rm(join(folder, name), { recursive: true, force: true });
}

async function folderBytes(folder: string): Promise<number> {
  let sum = 0;
  for (const name of await listFolder(folder))
    sum += (await stat(join(folder, name)).catch(() => undefined))?.size ?? 0;
  return sum;
}

/** Leftovers of abandoned downloads: parts that no fetch uses, and blobs that no ref names. */
interface Leftovers {
  readonly beginFetch: BeginFetch;
  /** Removes leftovers, oldest first, until there is enough space. Must not run concurrently with `take`. `keepsBlobs`: parts only. */
  readonly remove: (isEnough: () => Promise<boolean>, keepsBlobs: boolean) => Promise<void>;
}

function createLeftovers(
  layout: StoreLayout,
  refs: Refs,
  holds: ReadonlyMap<string, readonly string[]>,
  log: Log,
): Leftovers {
  const running = new Map<string, { callers: number; readonly contents: Set<string> }>();
  const isPartUsed = (name: string): boolean => running.has(name.slice(0, -PART.length));
  const isBlobUsed = (sha256: string): boolean =>
    contentsNamedBy(refs.all()).has(sha256) ||
    [...holds.values()].some((contents) => contents.includes(sha256)) ||
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
      // Refs of a newer version may name any blob.
      const candidates = await removable(layout, keepsBlobs || refs.hasNewer);
      for (const path of candidates) {
        if (await isEnough()) return;
        // Checked right before the removal, because a fetch may have begun in the meantime.
        if (dirname(path) === layout.partial ? isPartUsed(basename(path)) : isBlobUsed(basename(path)))
          continue;
        await rm(path, { force: true });
        log.info({ file: basename(path) }, "removed a leftover of an abandoned download to free space");
      }
    },
  };
}

/** Paths of all parts and blobs except finished downloads, oldest first. */
async function removable(layout: StoreLayout, keepsBlobs: boolean): Promise<readonly string[]> {
  const found: { readonly path: string; readonly modifiedMs: number }[] = [];
  for (const name of await listFolder(layout.partial)) {
    const path = join(layout.partial, name);
    const info = name.endsWith(PART) ? await stat(path).catch(() => undefined) : undefined;
    if (info !== undefined) found.push({ path, modifiedMs: info.mtimeMs });
  }
  const finished = await finishedContents(layout);
  for (const { sha256, modifiedMs } of keepsBlobs ? [] : await listBlobs(layout))
    if (!finished.includes(sha256)) found.push({ path: join(layout.blobs, sha256), modifiedMs });
  return found.sort((a, b) => a.modifiedMs - b.modifiedMs).map(({ path }) => path);
}
