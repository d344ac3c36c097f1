/** How much disk there is, and whether a download may use it. */
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { MetalbridgeError, type Remedy } from "../../src/api/errors.ts";
import { systemCode } from "../../src/util/atomic-file.ts";

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
