/** Builds a commit once more, elsewhere and otherwise, and compares: a release that differs cannot be checked by anyone. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { ReleaseError } from "../project/release-error.ts";

/** What must not matter: a clock ahead of UTC by 14 hours, and another sorting of names. */
const OTHER_ENVIRONMENT = { TZ: "Pacific/Kiritimati", LC_ALL: "C", LANG: "C" };

/** Builds `commit` of the clone `root` in a clone of its own; throws ReleaseError with the files of `out` that differ. */
export function verifyRelease(root: string, commit: string, out: string, args: readonly string[]): void {
  const folder = mkdtempSync(path.join(tmpdir(), "mb-rebuild-"));
  const clone = path.join(folder, "a", "clone");
  const again = path.join(folder, "release");
  try {
    const env = { ...process.env, ...OTHER_ENVIRONMENT };
    const run = (cwd: string, ...command: readonly string[]) =>
      execFileSync("sh", ["-c", 'umask 077 && exec "$@"', "sh", ...command], { cwd, env, stdio: "inherit" });
    run(root, "git", "clone", "--quiet", "--no-checkout", root, clone);
    run(clone, "git", "checkout", "--quiet", "--detach", commit);
    run(clone, "npm", "install", "--no-audit", "--no-fund", "--loglevel=error");
    run(clone, "npm", "run", "--silent", "release", "--", ...args, "--out", again);
    const names = differences(out, again);
    if (names.length > 0)
      throw new ReleaseError(
        `these files differ from a second build of ${commit}:\n${names.join("\n")}`,
        "compare them (diffoscope), and remove what depends on the machine, the folder or the time",
      );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Files below either folder that the other one lacks, or has with other bytes. */
export function differences(one: string, other: string): readonly string[] {
  const names = [one, other].flatMap((folder) => readdirSync(folder, { recursive: true, encoding: "utf8" }));
  return [...new Set(names)].sort().filter((name) => {
    const [left, right] = [path.join(one, name), path.join(other, name)];
    if (!existsSync(left) || !existsSync(right)) return true;
    if (statSync(left).isDirectory() && statSync(right).isDirectory()) return false;
    return !readFileSync(left).equals(readFileSync(right));
  });
}
