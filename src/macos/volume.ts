/** What macOS does with the folder of the models: Time Machine's backups, and the space it frees on demand. */
import type { RunCommand } from "../util/command.ts";

/** Weights can be downloaded again and fill a backup disk. False where the folder is still backed up afterwards. */
export async function excludeFromBackup(run: RunCommand, folder: string): Promise<boolean> {
  if (await isExcluded(run, folder)) return true;
  // Kept with the folder as an attribute, which needs no administrator; it prints nothing.
  await run("tmutil", ["addexclusion", folder]);
  return isExcluded(run, folder);
}

async function isExcluded(run: RunCommand, folder: string): Promise<boolean> {
  return ((await run("tmutil", ["isexcluded", folder])) ?? "").startsWith("[Excluded]");
}

/** No tool prints this figure; Foundation has it. */
const IMPORTANT_CAPACITY = `function run([path]) {
  ObjC.import("Foundation");
  const key = "NSURLVolumeAvailableCapacityForImportantUsageKey";
  const values = $.NSURL.fileURLWithPath(path).resourceValuesForKeysError([key], null);
  return String(ObjC.unwrap(values.objectForKey(key)));
}`;

/** Bytes that can be written once the system has purged caches and local snapshots; undefined where it does not tell. */
export async function capacityWithPurging(run: RunCommand, folder: string): Promise<number | undefined> {
  const text = await run("osascript", ["-l", "JavaScript", "-e", IMPORTANT_CAPACITY, folder]);
  const bytes = text?.trim() ?? "";
  return /^\d+$/.test(bytes) ? Number(bytes) : undefined;
}
