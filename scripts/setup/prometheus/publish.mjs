/** Puts the two programs where tests find them. */
import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { SetupError } from "../steps.mjs";
import { hasBoth, PROGRAMS } from "./find.mjs";

/** Moves them from `folder` to `target` by one rename, so that whoever finds the folder finds it complete. */
export function publish(folder, target) {
  if (!hasBoth(folder)) throw new SetupError(`what was fetched lacks ${PROGRAMS.join(" or ")}`);
  const complete = mkdtempSync(join(dirname(target), ".complete-"));
  for (const name of PROGRAMS) renameSync(join(folder, name), join(complete, name));
  if (!hasBoth(target)) {
    rmSync(target, { recursive: true, force: true });
    mkdirSync(dirname(target), { recursive: true });
    renameSync(complete, target);
  }
  rmSync(complete, { recursive: true, force: true });
  return target;
}
