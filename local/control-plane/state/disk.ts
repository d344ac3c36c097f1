/** Checks the free space on the disk of a state folder. */
import { statfsSync } from "node:fs";
import { readDiskSpace } from "../../../agent/store/content/disk.ts";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { formatBytes } from "../../../src/util/bytes.ts";

const MIB = 2 ** 20;
/** etcd allocates two log segments of 64 MiB at start. The other half is for data and logs. */
export const CONTROL_PLANE_FREE_BYTES = 256 * MIB;

/** Throws StateDiskFull with `why`. */
export async function requireFreeSpace(dir: string, requiredBytes: number, why: string): Promise<void> {
  const { freeBytes } = await readDiskSpace(dir);
  if (freeBytes >= requiredBytes) return;
  const [free, required] = [formatBytes(freeBytes), formatBytes(requiredBytes)];
  throw new MetalbridgeError(
    "StateDiskFull",
    `the disk of ${dir} has ${free} free; ${required} are needed: ${why}`,
  );
}

/**
 * True if the disk of this file or folder is almost full: etcd then cannot allocate its log, and exits with a stack trace.
 * Called after a component has exited; false if the disk cannot be read.
 */
export function isDiskFull(path: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(path);
    return bavail * bsize < 128 * MIB;
  } catch {
    return false;
  }
}
