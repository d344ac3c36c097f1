/** Which content is in use, how much there is, and which goes first when room is needed. */
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { isoSeconds } from "../../src/iso-seconds.ts";
import { publicSource } from "../../src/models/source/source.ts";
import type { Log } from "../../src/ports.ts";
import { createTurns } from "../turns.ts";
import { listBlobs, removeBlob, removeView } from "./content/blobs.ts";
import { type Layout, namesIn } from "./content/layout.ts";
import type { Ref, Refs } from "./refs.ts";
import type { StoredModel, StoredModelInfo } from "./types.ts";

export interface Usage {
  readonly hold: (owner: string, contents: readonly string[]) => void;
  readonly release: (owner: string) => void;
  /** Looks for content while nothing is removed; what is found is in use by `owner` before anything can be. */
  readonly take: <T extends { readonly contents: readonly string[] }>(
    owner: string,
    look: () => Promise<T | undefined>,
  ) => Promise<T | undefined>;
  readonly isInUse: (ref: Ref) => boolean;
  readonly usedBytes: () => Promise<number>;
  /** False when it is in use. */
  readonly removeRef: (ref: Ref) => Promise<boolean>;
  /** Removes unused models, least recently used first, until so many bytes are free. */
  readonly makeRoom: (bytes: number) => Promise<readonly StoredModelInfo[]>;
  /** Removes what crashed or abandoned runs left. */
  readonly sweep: (nowMs: number) => Promise<void>;
}

const STALE_MS = 7 * 24 * 3_600_000;
const HOUR_MS = 3_600_000;

export function createUsage(layout: Layout, refs: Refs, log: Log): Usage {
  const holds = new Map<string, readonly string[]>();
  const isInUse = (ref: Ref): boolean => {
    const held = new Set([...holds.values()].flat());
    return ref.files.some((file) => held.has(file.sha256));
  };
  const inTurn = createTurns();
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
    return blobs.reduce((sum, blob) => sum + blob.sizeBytes, 0) + (await folderBytes(layout.partial));
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
    usedBytes,
    removeRef,
    makeRoom: async (bytes) => {
      const removed: StoredModelInfo[] = [];
      const before = await usedBytes();
      const oldestFirst = refs
        .all()
        .filter((ref) => !isInUse(ref))
        .sort((a, b) => a.lastUsedMs - b.lastUsedMs);
      for (const ref of oldestFirst) {
        if (before - (await usedBytes()) >= bytes) break;
        // A replica may have taken it up while others were removed.
        if (!(await removeRef(ref))) continue;
        log.info(
          { source: publicSource(ref.source), sha256: ref.files[0]?.sha256 },
          "removed an unused model to make room",
        );
        removed.push(describeRef(ref, false));
      }
      return removed;
    },
    sweep: (nowMs) => sweep(layout, refs, nowMs, log),
  };
}

/** Checksums of all files of the models; files used in place have none, and are never removed. */
export function contentsOf(...models: readonly (StoredModel | undefined)[]): readonly string[] {
  const files = models.flatMap((model) => model?.files ?? []);
  return files.flatMap(({ sha256 }) => (sha256 === undefined ? [] : [sha256]));
}

/** A ref as Host.status shows it. */
export function describeRef(ref: Ref, inUse: boolean): StoredModelInfo {
  return {
    source: publicSource(ref.source),
    sha256: ref.files[0]?.sha256 ?? "",
    sizeBytes: ref.files.reduce((sum, file) => sum + file.sizeBytes, 0),
    lastUsedAt: isoSeconds(Math.floor(ref.lastUsedMs / HOUR_MS) * HOUR_MS),
    inUse,
  };
}

async function sweep(layout: Layout, refs: Refs, nowMs: number, log: Log): Promise<void> {
  for (const folder of [layout.partial, layout.views]) {
    for (const name of await namesIn(folder)) {
      const path = join(folder, name);
      const isLeftover =
        name.endsWith(".tmp") || (folder === layout.partial && (await ageMs(path, nowMs)) > STALE_MS);
      if (!isLeftover) continue;
      await rm(path, { recursive: true, force: true });
      log.info({ file: name }, "removed what an earlier download left");
    }
  }
  const named = new Set(refs.all().flatMap((ref) => ref.files.map((file) => file.sha256)));
  for (const blob of await listBlobs(layout)) {
    // A young blob without a ref may be a shard of a model that is still being fetched.
    const isUnnamed = !named.has(blob.sha256) && nowMs - blob.modifiedMs > STALE_MS;
    if (isUnnamed || !/^[0-9a-f]{64}$/.test(blob.sha256))
      await rm(join(layout.blobs, blob.sha256), { force: true });
  }
}

async function ageMs(path: string, nowMs: number): Promise<number> {
  const info = await stat(path).catch(() => undefined);
  return info === undefined ? 0 : nowMs - info.mtimeMs;
}

async function folderBytes(folder: string): Promise<number> {
  let sum = 0;
  for (const name of await namesIn(folder))
    sum += (await stat(join(folder, name)).catch(() => undefined))?.size ?? 0;
  return sum;
}
