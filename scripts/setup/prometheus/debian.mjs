/** prometheus and promtool from the system's own package archive: unpacked into the cache, nothing installed, no service started. */
import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { unpackPackages } from "../private-apt.mjs";
import { SetupError } from "../steps.mjs";
import { hasBoth, PROGRAMS } from "./find.mjs";

/** Returns the folder with both. The lists of packages are fetched into a private folder, so root is not needed. */
export async function installFromDebian(cache) {
  mkdirSync(cache, { recursive: true });
  const work = mkdtempSync(join(cache, ".apt-"));
  try {
    const { prefix, archives } = await unpackPackages(work, ["prometheus"]);
    const [archive] = archives;
    if (archive === undefined) throw new SetupError("the system's archive gave no package prometheus");
    return publish(join(prefix, "usr", "bin"), join(cache, `debian-${versionOf(archive)}`));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Moves `folder` to `target` with one rename, so that a folder at `target` is always complete. */
function publish(folder, target) {
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

/** Pure: `prometheus_2.42.0+ds-5+deb12u1_amd64.deb` → `2.42.0+ds-5+deb12u1` */
export function versionOf(archive) {
  const [, version = "unknown"] = archive.split("_");
  return version.replace(/^\d+%3a/, "");
}
