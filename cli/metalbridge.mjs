#!/usr/bin/env node
/** The program `metalbridge`: checks Node before anything else is loaded, then runs the bundle, or the sources when they are newer. */
import { spawn } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const OLDEST = [22, 19];
const root = dirname(dirname(fileURLToPath(import.meta.url)));

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) await run();
else handOver();

async function run() {
  await followLifeline();
  process.setSourceMapsEnabled(true);
  const { main } = await import(pathToFileURL(entry()).href);
  process.exitCode = await main(process.argv.slice(2));
  // A verb that has returned is over: a timer that it forgot must not keep the terminal waiting.
  setTimeout(() => process.exit(), 500).unref();
}

/** The bundle starts in a third of the time; sources win while somebody is changing them. */
function entry() {
  const bundle = join(root, "dist", "metalbridge.mjs");
  const sources = join(root, "cli", "main.ts");
  if (!existsSync(sources)) return bundle;
  if (!existsSync(bundle)) return sources;
  return newestSourceMs() > statSync(bundle).mtimeMs ? sources : bundle;
}

function newestSourceMs() {
  let newest = 0;
  for (const folder of ["src", "agent", "controller", "launchd", "cli"]) {
    if (!existsSync(join(root, folder))) continue;
    for (const name of readdirSync(join(root, folder), { recursive: true })) {
      if (!name.endsWith(".ts") || name.endsWith(".test.ts")) continue;
      newest = Math.max(newest, statSync(join(root, folder, name)).mtimeMs);
    }
  }
  return newest;
}

/** This Node is too old: use the one that setup installed, tied to us by a pipe so that it never outlives us. */
function handOver() {
  const node = join(root, "node_modules", "node", "bin", "node");
  if (!existsSync(node)) {
    console.error(`metalbridge needs Node ${OLDEST.join(".")} or newer; this is ${process.versions.node}`);
    console.error("  install a newer Node, or let setup provide one:");
    console.error("    npm run setup");
    process.exit(2);
  }
  const child = spawn(node, process.argv.slice(1), {
    stdio: ["inherit", "inherit", "inherit", "pipe"],
    env: { ...process.env, METALBRIDGE_LIFELINE: `3:${process.pid}` },
  });
  // Interrupt and hang-up reach the child from the terminal as well; it decides when to end.
  for (const signal of ["SIGINT", "SIGHUP"]) process.on(signal, () => {});
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  child.on("exit", (code, signal) => process.exit(code ?? (signal === null ? 1 : 128 + 15)));
}

/** Ends us in good order when the process that holds the other end of the pipe is gone. */
async function followLifeline() {
  const [descriptor, holder] = (process.env.METALBRIDGE_LIFELINE ?? "").split(":").map(Number);
  delete process.env.METALBRIDGE_LIFELINE;
  if (holder !== process.ppid) return;
  const { Socket } = await import("node:net");
  const lifeline = new Socket({ fd: descriptor, readable: true, writable: false });
  lifeline.on("error", () => {});
  lifeline.on("close", () => process.kill(process.pid, "SIGTERM"));
  lifeline.resume();
  lifeline.unref();
}
