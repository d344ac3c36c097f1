/** prometheus and promtool from the system's own package archive: unpacked into the cache, nothing installed, no service started. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { unpackPackages } from "../private-apt.mjs";
import { SetupError } from "../steps.mjs";
import { publish } from "./publish.mjs";

/** Returns the folder with both. The lists of packages are fetched anew into a private place, so no right of root is needed. */
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
installFromDebian.label = "fetching the system's package prometheus into the cache";

/** Pure: `prometheus_2.42.0+ds-5+deb12u1_amd64.deb` → `2.42.0+ds-5+deb12u1` */
export function versionOf(archive) {
  const [, version = "unknown"] = archive.split("_");
  return version.replace(/^\d+%3a/, "");
}
