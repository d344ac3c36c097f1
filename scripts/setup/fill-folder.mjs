/** Fills a folder of the cache. */
import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * `make` works in a temporary folder next to `target`, and returns the folder to publish. One rename publishes it, so that a folder
 * at `target` is always complete, also after an interrupted setup.
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
