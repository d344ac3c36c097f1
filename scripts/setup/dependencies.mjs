/** npm packages by the committed lock file, and a Node that is new enough. */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "./command.mjs";
import { SetupError } from "./steps.mjs";

const OLDEST_NODE = [22, 19];

/** `npm install`, and only when the lock file or the machine has changed since the last one. */
export async function ensureDependencies(root, progress) {
  const stamp = join(root, "node_modules", ".metalbridge-stamp");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === fingerprint(root)) {
    return progress.cached("npm packages", "as in the lock file");
  }
  await progress.during("npm packages", "npm install", async () => {
    // Not `npm ci`: it refuses a lock file that lacks other platforms' optional packages.
    const args = ["install", "--no-audit", "--no-fund", "--loglevel=error"];
    const result = await run("npm", args, { cwd: root });
    if (result.code !== 0) {
      throw new SetupError(`npm install failed:\n${result.tail}`, [
        "check that a package registry can be reached: npm ping",
        "then run the same command again; what was fetched is kept",
      ]);
    }
    writeFileSync(stamp, fingerprint(root));
  });
}

/** Path of a Node that can run metalbridge: this one, or the one from the npm package `node`. */
export function ensureNode(root) {
  if (isNewEnough(process.versions.node)) return process.execPath;
  const packaged = join(root, "node_modules", "node", "bin", "node");
  if (existsSync(packaged)) return packaged;
  throw new SetupError(`Node ${OLDEST_NODE.join(".")} or newer is needed; this is ${process.versions.node}`, [
    "allow the install script of the npm package `node`: npm rebuild node",
    "or install a newer Node yourself",
  ]);
}

export function isNewEnough(version) {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1]);
}

function fingerprint(root) {
  const hash = createHash("sha256");
  for (const name of ["package.json", "package-lock.json"]) hash.update(readFileSync(join(root, name)));
  return `${hash.digest("hex")} ${process.platform}-${process.arch}\n`;
}
