/** How much disk there is, and whether a download may take it: the reserve, the quota, and what other downloads still need. */
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { MetalbridgeError, type Remedy } from "../../../src/api/errors.ts";
import { systemCode } from "../../../src/util/atomic-file.ts";

export interface DiskSpace {
  readonly totalBytes: number;
  /** What an unprivileged user may still write. */
  readonly freeBytes: number;
}

/** Of the disk that holds the folder, or would hold it. */
export async function readDiskSpace(folder: string): Promise<DiskSpace> {
  const found = await statfs(folder).catch((error: unknown) => {
    const parent = dirname(folder);
    if (systemCode(error) !== "ENOENT" || parent === folder) throw error;
    return undefined;
  });
  if (found === undefined) return readDiskSpace(dirname(folder));
  return { totalBytes: found.blocks * found.bsize, freeBytes: found.bavail * found.bsize };
}

export type ReadSpace = (wantedBytes: number) => Promise<DiskSpace>;

/** Reads the disk of a folder; space that the system frees on demand counts if the free space is not enough. */
export function createSpaceReader(
  folder: string,
  capacityWithPurging?: (folder: string) => Promise<number | undefined>,
): ReadSpace {
  return async (wantedBytes) => {
    const space = await readDiskSpace(folder);
    if (space.freeBytes >= wantedBytes || capacityWithPurging === undefined) return space;
    const bytes = (await capacityWithPurging(folder)) ?? 0;
    return { ...space, freeBytes: Math.max(space.freeBytes, bytes) };
  };
}

/** The error for a download that does not fit, with the numbers that decide. */
export function diskFull(facts: {
  what: string;
  neededBytes?: number | undefined;
  freeBytes: number;
  reserveBytes: number;
  remedy?: Remedy | undefined;
  cause?: unknown;
}): MetalbridgeError {
  const needed = facts.neededBytes === undefined ? "more room" : `${formatDiskBytes(facts.neededBytes)} more`;
  const message =
    `${facts.what} needs ${needed}, the disk has ${formatDiskBytes(facts.freeBytes)} free ` +
    `and ${formatDiskBytes(facts.reserveBytes)} of it stay reserved`;
  return new MetalbridgeError("DiskFull", message, facts.remedy, { cause: facts.cause });
}

/** Bytes for people, in binary units. */
export function formatDiskBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = Math.max(0, bytes);
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

export interface DiskAdmission {
  /** Throws DiskFull when `neededBytes` more do not fit, after unused models were removed. */
  readonly admit: (
    key: string,
    what: string,
    neededBytes: number,
    sparesPrefetched?: boolean,
  ) => Promise<void>;
  readonly done: (key: string) => void;
}

/** What cannot be evicted: models in use, and pinned ones that are not. */
export interface UnevictableModels {
  readonly inUse: number;
  readonly pinned: number;
  readonly bytes: number;
}

export interface DiskAdmissionOptions {
  readonly readSpace: ReadSpace;
  readonly reserveBytes: number;
  readonly quotaBytes: () => number | undefined;
  /** Bytes of all content in the store, parts included. */
  readonly usedBytes: () => Promise<number>;
  /** Removes unused models worth at least so many bytes if it can. */
  readonly makeRoom: (bytes: number, sparesPrefetched: boolean) => Promise<void>;
  readonly kept: () => UnevictableModels;
}

export function createDiskAdmission(options: DiskAdmissionOptions): DiskAdmission {
  const needs = new Map<string, number>();

  const shortage = async (key: string, neededBytes: number): Promise<Shortage> => {
    let others = 0;
    for (const [other, bytes] of needs) if (other !== key) others += bytes;
    const { freeBytes } = await options.readSpace(neededBytes + others + options.reserveBytes);
    const quota = options.quotaBytes();
    const overQuota = quota === undefined ? 0 : (await options.usedBytes()) + neededBytes + others - quota;
    return { freeBytes, onDisk: neededBytes + others + options.reserveBytes - freeBytes, overQuota, quota };
  };

  return {
    admit: async (key, what, neededBytes, sparesPrefetched = false) => {
      let short = await shortage(key, neededBytes);
      if (short.onDisk > 0 || short.overQuota > 0) {
        await options.makeRoom(Math.max(short.onDisk, short.overQuota), sparesPrefetched);
        short = await shortage(key, neededBytes);
      }
      const kept = options.kept();
      if (short.overQuota > 0 && short.quota !== undefined)
        throw overQuota(what, neededBytes, short.quota, kept);
      if (short.onDisk > 0) {
        const { freeBytes } = short;
        const remedy = remedyOf(kept);
        throw diskFull({ what, neededBytes, freeBytes, reserveBytes: options.reserveBytes, remedy });
      }
      needs.set(key, neededBytes);
    },
    done: (key) => needs.delete(key),
  };
}

interface Shortage {
  readonly freeBytes: number;
  readonly onDisk: number;
  readonly overQuota: number;
  readonly quota: number | undefined;
}

function overQuota(
  what: string,
  neededBytes: number,
  quota: number,
  kept: UnevictableModels,
): MetalbridgeError {
  const message = `${what} needs ${formatDiskBytes(neededBytes)} more, which exceeds the store's quota of ${formatDiskBytes(quota)}`;
  return new MetalbridgeError("DiskFull", message, remedyOf(kept));
}

/** Where pins are in the way, they are what to look at first; otherwise the catalog's remedy. */
function remedyOf({ inUse, pinned, bytes }: UnevictableModels): Remedy | undefined {
  if (pinned === 0) return undefined;
  return {
    summary: `all ${formatDiskBytes(bytes)} that are left in the store are pinned (${pinned} models) or in use (${inUse}), so nothing can be evicted: unpin a model, free space outside the store, or raise the quota`,
    command: "metalbridge models list",
  };
}
