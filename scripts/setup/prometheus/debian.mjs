/** prometheus and promtool from the system's own package archive: unpacked into the cache, nothing installed, no service started. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../command.mjs";
import { SetupError } from "../steps.mjs";
import { publish } from "./publish.mjs";

/** Returns the folder with both. The lists of packages are fetched anew into a private place, so no right of root is needed. */
export async function installFromDebian(cache) {
  mkdirSync(cache, { recursive: true });
  const work = mkdtempSync(join(cache, ".apt-"));
  try {
    const env = privateApt(work);
    await must("apt-get", ["update", "-qq"], { cwd: work, env, timeoutMs: 120_000 });
    await must("apt-get", ["download", "-qq", "prometheus"], { cwd: work, env, timeoutMs: 120_000 });
    const [archive] = readdirSync(work).filter((name) => name.endsWith(".deb"));
    if (archive === undefined) throw new SetupError("the system's archive gave no package prometheus");
    const prefix = join(work, "prefix");
    await must("dpkg", ["-x", join(work, archive), prefix], { timeoutMs: 60_000 });
    return publish(join(prefix, "usr", "bin"), join(cache, `debian-${versionOf(archive)}`));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
installFromDebian.label = "fetching the system's package prometheus into the cache";

/** The system's sources and keys, and no other file of the system's. */
function privateApt(work) {
  for (const folder of ["lists/partial", "cache/archives/partial"])
    mkdirSync(join(work, folder), { recursive: true });
  const settings = {
    "Dir::State": work,
    "Dir::State::lists": join(work, "lists"),
    "Dir::State::status": "/dev/null",
    "Dir::Cache": join(work, "cache"),
    "APT::Sandbox::User": "root",
    "Acquire::Languages": "none",
    "Acquire::Retries": "2",
    "Acquire::http::Timeout": "15",
  };
  const lines = Object.entries(settings).map(([key, value]) => `${key} "${value}";\n`);
  writeFileSync(join(work, "apt.conf"), lines.join(""));
  return { ...process.env, APT_CONFIG: join(work, "apt.conf") };
}

/** Pure: `prometheus_2.42.0+ds-5+deb12u1_amd64.deb` → `2.42.0+ds-5+deb12u1` */
export function versionOf(archive) {
  const [, version = "unknown"] = archive.split("_");
  return version.replace(/^\d+%3a/, "");
}

async function must(program, args, options) {
  const result = await run(program, args, options);
  if (result.code === 0) return;
  throw new SetupError(`${program} ${args[0]} failed: ${result.tail.slice(-600)}`);
}
