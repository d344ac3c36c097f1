/** Debian packages without touching the system: apt with a state of its own, packages unpacked and not installed. No right of root is needed. */
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "./command.mjs";
import { SetupError } from "./steps.mjs";

/**
 * Fetches the packages into `work` and unpacks them below `<work>/prefix`; returns that folder and the archives' names.
 * `settings` are apt's own, beside those that keep it within `work`; without any the system's sources and keys count.
 */
export async function unpackPackages(work, packages, { settings = {}, timeoutMs = 120_000 } = {}) {
  await askApt(work, ["download", "-qq", ...packages], settings, timeoutMs);
  const archives = readdirSync(work).filter((name) => name.endsWith(".deb"));
  const prefix = join(work, "prefix");
  for (const name of archives) await must("dpkg", ["-x", join(work, name), prefix], { timeoutMs: 60_000 });
  return { prefix, archives };
}

/** The archives of the packages and of all that they depend on. */
export async function downloadWithDependencies(work, packages, settings) {
  const options = ["-y", "-qq", "--download-only", "--no-install-recommends"];
  await askApt(work, ["install", ...options, ...packages], settings, 600_000);
  const folder = join(work, "cache", "archives");
  return readdirSync(folder)
    .filter((name) => name.endsWith(".deb"))
    .map((name) => join(folder, name));
}

/** Runs apt-get with fresh lists and with nothing installed; returns what it printed. */
export async function askApt(work, args, settings = {}, timeoutMs = 120_000) {
  const env = privateApt(work, settings);
  await must("apt-get", ["update", "-qq"], { cwd: work, env, timeoutMs: 120_000 });
  return must("apt-get", args, { cwd: work, env, timeoutMs });
}

/** Installed by the package debian-archive-keyring; packages of another suite cannot be verified without it. */
export const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";

/**
 * Settings of apt for these archives alone, such as `http://HOST/debian trixie`, verified with Debian's keys; `architecture`, such
 * as arm64, may be another than that of this machine.
 */
export function debianOnly(work, archives, architecture) {
  const list = join(work, "sources.list");
  writeFileSync(list, archives.map((archive) => `deb [signed-by=${KEYRING}] ${archive} main\n`).join(""));
  const settings = { "Dir::Etc::sourcelist": list, "Dir::Etc::sourceparts": "/dev/null" };
  if (architecture === undefined) return settings;
  return { ...settings, "APT::Architecture": architecture, "APT::Architectures": architecture };
}

/** Lists of testing and unstable are valid for a week, and mirrors are not always that fresh. What is fetched is for tests only. */
export const STALE_LISTS = { "Acquire::Check-Valid-Until": "false" };

function privateApt(work, more) {
  for (const folder of ["lists/partial", "cache/archives/partial"])
    mkdirSync(join(work, folder), { recursive: true });
  // apt locks the folder of this file: with /dev/null it left its locks in /dev.
  const status = join(work, "status");
  writeFileSync(status, "");
  const settings = {
    "Dir::State": work,
    "Dir::State::lists": join(work, "lists"),
    "Dir::State::status": status,
    "Dir::Cache": join(work, "cache"),
    "APT::Sandbox::User": "root",
    "Acquire::Languages": "none",
    "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    "Acquire::Retries": "2",
    "Acquire::http::Timeout": "15",
    ...more,
  };
  const lines = Object.entries(settings).map(([key, value]) => `${key} "${value}";\n`);
  writeFileSync(join(work, "apt.conf"), lines.join(""));
  return { ...process.env, APT_CONFIG: join(work, "apt.conf") };
}

async function must(program, args, options) {
  const result = await run(program, args, options);
  if (result.code === 0) return result.stdout;
  throw new SetupError(`${program} ${args[0]} failed: ${result.tail.slice(-600)}`);
}
