/** Fills a folder of the cache. */
import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * `make` works in a temporary folder beside `target`, and returns the folder to publish. By one rename, so that whoever finds the
 * folder finds it complete, and an interrupted setup leaves nothing half.
 */
export async function fillFolder(target, make) {
  mkdirSync(dirname(target), { recursive: true });
  const work = mkdtempSync(join(dirname(target), ".work-"));
  try {
    const complete = await make(work);
    rmSync(target, { recursive: true, force: true });
    renameSync(complete, target);
    return target;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
