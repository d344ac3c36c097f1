/** Which content is in use, how much there is, and which goes first when room is needed. */
import { rm, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { publicSource } from "../../src/models/source/parse.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import type { Log } from "../../src/util/ports.ts";
import { createSerializer } from "../../src/util/serializer.ts";
import { listBlobs, quarantineBlob, removeBlob, removeView } from "./content/blobs.ts";
import { finishedContents } from "./content/finished-downloads.ts";
import { listFolder, type StoreLayout } from "./content/layout.ts";
import type { BeginFetch } from "./download/fetch-content.ts";
import type { ModelRetention } from "./model-retention.ts";
import type { Ref, Refs } from "./refs.ts";
import type { StoredModel, StoredModelInfo } from "./types.ts";

export interface RoomOptions {
  readonly mayGo?: (ref: Ref) => boolean;
  /** Removes no model where all that may go would not be enough. */
  readonly allOrNothing?: boolean;
  /** Removes no content at all, only what abandoned downloads left unfinished. */
  readonly keepsBlobs?: boolean;
}

export interface Usage {
  readonly hold: (owner: string, contents: readonly string[]) => void;
  readonly release: (owner: string) => void;
  /** Looks for content while nothing is removed; what is found is in use by `owner` before anything can be. */
  readonly take: <T extends { readonly contents: readonly string[] }>(
    owner: string,
    look: () => Promise<T | undefined>,
  ) => Promise<T | undefined>;
  readonly isInUse: (ref: Ref) => boolean;
  /** Who holds content of it. */
  readonly ownersOf: (ref: Ref) => readonly string[];
  /** Keeps the part of this key, and what `publish` names, until the result is called. */
  readonly beginFetch: BeginFetch;
  readonly usedBytes: () => Promise<number>;
  /** False when it is in use. */
  readonly removeRef: (ref: Ref) => Promise<boolean>;
  /** Removes what is in quarantine, then what abandoned downloads left, oldest first, then unused models, least recently used first, until so many bytes are free: prefetched ones last, pinned ones never. */
  readonly makeRoom: (bytes: number, options?: RoomOptions) => Promise<readonly StoredModelInfo[]>;
  /** Moves damaged content aside, if its blob is still the file of this inode. Its models are fetched again when they are wanted. */
  readonly quarantine: (sha256: string, inode: number) => Promise<boolean>;
  /** Removes what crashed or abandoned runs left. */
  readonly sweep: (nowMs: number) => Promise<void>;
}

const PART = ".part";
const STALE_MS = 7 * 24 * 3_600_000;
const HOUR_MS = 3_600_000;

export function createUsage(
  layout: StoreLayout,
  refs: Refs,
  keeping: Pick<ModelRetention, "isPinned" | "isPrefetched">,
  log: Log,
): Usage {
  const holds = new Map<string, readonly string[]>();
  const ownersOf = ({ files }: Ref): readonly string[] =>
    [...holds].flatMap(([owner, held]) => (files.some(({ sha256 }) => held.includes(sha256)) ? [owner] : []));
  const isInUse = (ref: Ref): boolean => ownersOf(ref).length > 0;
  const inTurn = createSerializer();
  const leftovers = createLeftovers(layout, refs, holds, log);
  const removeUnused = async (ref: Ref): Promise<boolean> => {
    if (isInUse(ref)) return false;
    await refs.remove(ref.key);
    const others = refs.all();
    if (!others.some((other) => other.view === ref.view)) await removeView(layout, ref.view);
    const named = new Set(others.flatMap((other) => other.files.map((file) => file.sha256)));
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
    take: (owner, look) =>
      inTurn(async () => {
        const found = await look();
        if (found !== undefined) holds.set(owner, [...(holds.get(owner) ?? []), ...found.contents]);
        return found;
      }),
    isInUse,
    ownersOf,
    beginFetch: leftovers.beginFetch,
    usedBytes,
    removeRef,
    quarantine: (sha256, inode) => inTurn(() => quarantineBlob(layout, sha256, inode)),
    makeRoom: async (bytes, { mayGo = () => true, allOrNothing = false, keepsBlobs = false } = {}) => {
      const removed: StoredModelInfo[] = [];
      const before = await usedBytes();
      await emptyFolder(layout.quarantine);
      const isEnough = async () => before - (await usedBytes()) >= bytes;
      await inTurn(() => leftovers.remove(isEnough, keepsBlobs));
      if (keepsBlobs) return removed;
      const rank = (ref: Ref) => (keeping.isPrefetched(ref) ? 1 : 0);
      const oldestFirst = refs
        .all()
        .filter((ref) => !isInUse(ref) && !keeping.isPinned(ref) && mayGo(ref))
        .sort((a, b) => rank(a) - rank(b) || a.lastUsedMs - b.lastUsedMs);
      const left = bytes - (before - (await usedBytes()));
      if (allOrNothing && freedBy(oldestFirst, refs.all()) < left) return [];
      for (const ref of oldestFirst) {
        if (await isEnough()) break;
        // A replica may have taken it up while others were removed.
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

/** Bytes of the content that only these refs name. */
function freedBy(going: readonly Ref[], all: readonly Ref[]): number {
  const goes = new Set(going);
  const kept = new Set(
    all.filter((ref) => !goes.has(ref)).flatMap(({ files }) => files.map(({ sha256 }) => sha256)),
  );
  const sizes = new Map(
    going.flatMap(({ files }) => files.map((file) => [file.sha256, file.sizeBytes] as const)),
  );
  return [...sizes].reduce((sum, [sha256, bytes]) => (kept.has(sha256) ? sum : sum + bytes), 0);
}

/** Checksums of all files of the models; files used in place have none, and are never removed. */
export function contentsOf(...models: readonly (StoredModel | undefined)[]): readonly string[] {
  const files = models.flatMap((model) => model?.files ?? []);
  return files.flatMap(({ sha256 }) => (sha256 === undefined ? [] : [sha256]));
}

/** A ref as Host.status shows it. */
export function describeRef(
  ref: Ref,
  flags: Pick<StoredModelInfo, "inUse" | "pinned" | "damaged">,
): StoredModelInfo {
  return {
    source: publicSource(ref.source),
    sha256: ref.files[0]?.sha256 ?? "",
    sizeBytes: ref.files.reduce((sum, file) => sum + file.sizeBytes, 0),
    fetchedAt: ref.fetchedAt,
    lastUsedAt: isoSeconds(Math.floor(ref.lastUsedMs / HOUR_MS) * HOUR_MS),
    ...flags,
  };
}

async function sweep(layout: StoreLayout, refs: Refs, nowMs: number, log: Log): Promise<void> {
  // Content in quarantine has the mtime of its download; its ctime is that of the move.
  const stale = { [layout.partial]: "mtimeMs", [layout.quarantine]: "ctimeMs" } as const;
  for (const folder of [layout.partial, layout.views, layout.quarantine]) {
    for (const name of await listFolder(folder)) {
      const path = join(folder, name);
      const since = stale[folder];
      const isStale = since !== undefined && (await ageMs(path, since, nowMs)) > STALE_MS;
      if (!isStale && !name.endsWith(".tmp")) continue;
      await rm(path, { recursive: true, force: true });
      log.info({ file: name }, "removed what an earlier download left");
    }
  }
  await sweepBlobs(layout, refs, nowMs);
}

async function sweepBlobs(layout: StoreLayout, refs: Refs, nowMs: number): Promise<void> {
  const named = new Set(refs.all().flatMap((ref) => ref.files.map((file) => file.sha256)));
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

/** What abandoned downloads left: parts that no fetch uses, and blobs that nothing names. */
interface Leftovers {
  /** Keeps the part of this key, and what its callers publish. */
  readonly beginFetch: BeginFetch;
  /** Oldest first, until there is room. Not while content is taken into use. `keepsBlobs`: parts only. */
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
