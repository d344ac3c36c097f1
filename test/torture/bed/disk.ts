/** Small disks of the farm that faults fill. */
import { closeSync, openSync, writeSync } from "node:fs";
import { run } from "../../bed/run.ts";

const BLOCK = Buffer.alloc(1 << 20);

/** Writes until nothing more can be written. */
export function fill(file: string): void {
  const descriptor = openSync(file, "a");
  try {
    for (let size = BLOCK.length; size >= 4_096; size /= 4) writeUntilFull(descriptor, size);
  } finally {
    closeSync(descriptor);
  }
}

function writeUntilFull(descriptor: number, size: number): void {
  try {
    while (writeSync(descriptor, BLOCK, 0, size) === size);
  } catch {
    // ENOSPC: that is what was wanted.
  }
}

/** A process that still writes there, such as the shim of a just killed engine, exits within a moment. */
export async function unmount(disk: string): Promise<void> {
  await run("umount", [disk]).catch(() => run("umount", ["--lazy", disk]).catch(() => {}));
}
