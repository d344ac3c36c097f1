/** Is dist/ newer than everything it is made from? */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

const SOURCES = [
  "src",
  "fitness",
  "agent",
  "controller",
  "server",
  "gateway",
  "launchd",
  "local",
  "cli",
  "web",
  "scripts/bundle",
];

const IS_SOURCE = /\.(ts|tsx|css|html|svg)$/;

export function bundleIsFresh(root) {
  const bundle = join(root, "dist", "metalbridge.mjs");
  if (!existsSync(bundle)) return false;
  const builtMs = statSync(bundle).mtimeMs;
  return newestMs(root) <= builtMs;
}

function newestMs(root) {
  const files = [join(root, "package-lock.json")];
  for (const folder of SOURCES.map((name) => join(root, name)).filter(existsSync)) {
    for (const name of readdirSync(folder, { recursive: true })) {
      if (IS_SOURCE.test(name) && !name.endsWith(".test.ts")) files.push(join(folder, name));
    }
  }
  return Math.max(...files.map((file) => statSync(file).mtimeMs));
}
