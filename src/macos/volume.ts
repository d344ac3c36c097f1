/** Excludes the folder of the models from Time Machine, and reads the purgeable space of its volume. */
import type { RunCommand } from "../util/command.ts";

/** Weights can be downloaded again and would fill a backup disk. Returns false if the folder is still backed up. */
export async function excludeFromBackup(run: RunCommand, folder: string): Promise<boolean> {
  if (await isExcluded(run, folder)) return true;
  // The exclusion is an attribute of the folder, which does not require an administrator. The command prints nothing.
  await run("tmutil", ["addexclusion", folder]);
  return isExcluded(run, folder);
}

async function isExcluded(run: RunCommand, folder: string): Promise<boolean> {
  return ((await run("tmutil", ["isexcluded", folder])) ?? "").startsWith("[Excluded]");
}

/** No tool prints this value, so it is read from Foundation. */
const IMPORTANT_CAPACITY = `function run([path]) {
  ObjC.import("Foundation");
  const key = "NSURLVolumeAvailableCapacityForImportantUsageKey";
  const values = $.NSURL.fileURLWithPath(path).resourceValuesForKeysError([key], null);
  return String(ObjC.unwrap(values.objectForKey(key)));
}`;

/** Bytes that can be written once the system has purged caches and local snapshots; undefined if it does not report them. */
export async function capacityWithPurging(run: RunCommand, folder: string): Promise<number | undefined> {
  const text = await run("osascript", ["-l", "JavaScript", "-e", IMPORTANT_CAPACITY, folder]);
  const bytes = text?.trim() ?? "";
  return /^\d+$/.test(bytes) ? Number(bytes) : undefined;
}
