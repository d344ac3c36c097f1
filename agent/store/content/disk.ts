/** Reads free disk space, and admits downloads: reserve, quota, and the space that other downloads still need all count. */
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { MetalbridgeError, type Remedy } from "../../../src/api/errors.ts";
import { ifExists } from "../../../src/util/atomic-file.ts";
import { formatBytes } from "../../../src/util/bytes.ts";

export interface DiskSpace {
  readonly totalBytes: number;
  /** Bytes that an unprivileged user may still write. */
  readonly freeBytes: number;
}

/** Reads the disk that holds the folder, or that will hold it once it exists. */
export async function readDiskSpace(folder: string): Promise<DiskSpace> {
  const parent = dirname(folder);
  const found = await (parent === folder ? statfs(folder) : ifExists(statfs(folder)));
  if (found === undefined) return readDiskSpace(parent);
  return { totalBytes: found.blocks * found.bsize, freeBytes: found.bavail * found.bsize };
}

export type ReadSpace = (neededBytes: number) => Promise<DiskSpace>;

/** Reads the disk of a folder. Purgeable space counts if the free space is not enough. */
export function createSpaceReader(
  folder: string,
  capacityWithPurging?: (folder: string) => Promise<number | undefined>,
): ReadSpace {
  return async (neededBytes) => {
    const space = await readDiskSpace(folder);
    if (space.freeBytes >= neededBytes) return space;
    const bytes = (await capacityWithPurging?.(folder)) ?? 0;
    return { ...space, freeBytes: Math.max(space.freeBytes, bytes) };
  };
}

/** The error for a download that does not fit on the disk. */
export function diskFull(facts: {
  what: string;
  neededBytes?: number | undefined;
  freeBytes: number;
  reserveBytes: number;
  remedy?: Remedy | undefined;
  cause?: unknown;
}): MetalbridgeError {
  const needed = facts.neededBytes === undefined ? "more space" : `${formatBytes(facts.neededBytes)} more`;
  const message =
    `${facts.what} needs ${needed}; the disk has ${formatBytes(facts.freeBytes)} free, ` +
    `of which ${formatBytes(facts.reserveBytes)} are reserved`;
  return new MetalbridgeError("DiskFull", message, facts.remedy, { cause: facts.cause });
}

export interface DiskAdmission {
  /** Removes unused models if necessary. Throws DiskFull if `neededBytes` more still do not fit. */
  readonly admit: (
    key: string,
    what: string,
    neededBytes: number,
    sparesPrefetched: boolean,
  ) => Promise<void>;
  readonly done: (key: string) => void;
}

/** Models that cannot be evicted. */
export interface UnevictableModels {
  readonly inUse: number;
  /** Pinned models that are not in use. */
  readonly pinned: number;
  readonly bytes: number;
}

export interface DiskAdmissionOptions {
  readonly readSpace: ReadSpace;
  readonly reserveBytes: number;
  readonly quotaBytes: () => number | undefined;
  /** Bytes of all content in the store, parts included. */
  readonly usedBytes: () => Promise<number>;
  /** Removes unused models until `bytes` are freed, if that is possible. */
  readonly makeRoom: (bytes: number, sparesPrefetched: boolean) => Promise<void>;
  readonly unevictable: () => UnevictableModels;
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
    admit: async (key, what, neededBytes, sparesPrefetched) => {
      let short = await shortage(key, neededBytes);
      if (short.onDisk > 0 || short.overQuota > 0) {
        await options.makeRoom(Math.max(short.onDisk, short.overQuota), sparesPrefetched);
        short = await shortage(key, neededBytes);
      }
      const { freeBytes, onDisk, overQuota, quota } = short;
      const remedy = remedyOf(options.unevictable());
      if (overQuota > 0 && quota !== undefined)
        throw new MetalbridgeError(
          "DiskFull",
          `${what} needs ${formatBytes(neededBytes)} more, which exceeds the store's quota of ${formatBytes(quota)}`,
          remedy,
        );
      if (onDisk > 0)
        throw diskFull({ what, neededBytes, freeBytes, reserveBytes: options.reserveBytes, remedy });
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

/** The catalog's remedy applies unless pinned models prevent the eviction. */
function remedyOf({ inUse, pinned, bytes }: UnevictableModels): Remedy | undefined {
  if (pinned === 0) return undefined;
  return {
    summary: `nothing can be evicted: the remaining ${formatBytes(bytes)} in the store are pinned (${pinned} models) or in use (${inUse}); unpin a model, free space outside the store, or raise the quota`,
    command: "metalbridge models list",
  };
}
