#!/usr/bin/env node
/**
 * The program `metalbridge`: checks Node before anything else is loaded, then runs the bundle, or the sources when they
 * are newer. What lives for months runs on a Node with memory-saving flags.
 */
import { spawn } from "node:child_process";
import { accessSync, constants, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { SourceMap } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const OLDEST = [22, 19];
/** The smallest young space would be collected several times a second, and what it hands on too early fills the old one. */
const YOUNG = ["--min-semi-space-size=2", "--max-semi-space-size=2"];
/**
 * No optimized code: it saves an idle agent little, and with its compilers takes 12 MB, 8 of them of Node's program. Hashes
 * and TLS are native; a download from loopback takes a tenth longer.
 */
const UNOPTIMIZED = ["--no-opt", "--no-maglev"];
/** A third less memory for what is idle; a collection takes longer, but there is little to collect. */
const SMALL = ["--single-threaded-gc", "--optimize-for-size", "--v8-pool-size=1", ...YOUNG];
/**
 * The server scores models and nodes by the thousand: compiled for size that takes ten times as long. What
 * they make on the way is of no use a moment later, and must not fill the old space: not by pretenuring, not while it is
 * marked bit by bit (a whole collection takes 20 ms). The heap grows in small steps. One optimizing compiler is enough: a
 * second one's code is 10 MB.
 */
const QUICK = [
  ...["--single-threaded-gc", "--v8-pool-size=1", "--min-semi-space-size=2", "--max-semi-space-size=2"],
  ...["--no-allocation-site-pretenuring", "--no-incremental-marking", "--heap-growing-percent=20"],
  "--no-maglev",
];
/** Set for a process that already has these flags. */
const IS_SMALL = "METALBRIDGE_IS_SMALL";
/** Set by `npm test`, which has built the bundle: its thousand starts do not look for newer sources. */
const USE_BUNDLE = "METALBRIDGE_USE_BUNDLE";
const root = dirname(dirname(fileURLToPath(import.meta.url)));

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) await run();
else handOver();

async function run() {
  becomeSmall();
  await followLifeline();
  mapStacks();
  const { main } = await import(pathToFileURL(entry()).href);
  process.exitCode = await main([...verbOfName(), ...process.argv.slice(2)]);
  // A verb that has returned is done: a leftover timer must not keep the terminal waiting.
  setTimeout(() => process.exit(), 500).unref();
}

/**
 * Stacks name sources. A map is read with the first stack that needs it: Node's own support would read all maps at each
 * start, which takes a fifth of it.
 */
function mapStacks() {
  const maps = new Map();
  const mapOf = (url) => {
    if (!maps.has(url)) maps.set(url, readMap(url));
    return maps.get(url);
  };
  const toSource = (place, url, line, column) => {
    const { fileName, lineNumber, columnNumber } = mapOf(url)?.findOrigin(Number(line), Number(column)) ?? {};
    if (fileName === undefined) return place;
    return `${fileURLToPath(new URL(fileName, url))}:${lineNumber}:${columnNumber}`;
  };
  Error.prepareStackTrace = (error, frames) =>
    [error, ...frames.map((frame) => `at ${frame}`.replace(/(file:\S+\.mjs):(\d+):(\d+)/, toSource))].join(
      "\n    ",
    );
  // Node would print the line of the bundle as well, which is a whole file.
  process.on("uncaughtException", (error) => {
    console.error(error);
    process.exit(1);
  });
}

function readMap(url) {
  try {
    return new SourceMap(JSON.parse(readFileSync(fileURLToPath(`${url}.map`), "utf8")));
  } catch {
    return undefined;
  }
}

/** Under the name of a program whose place it takes, it is one verb. */
function verbOfName() {
  return basename(process.argv[1] ?? "") === "llmfit-cluster-fit" ? ["cluster-fit", "--output=json"] : [];
}

/** Starts this process again with the flags: same pid, same descriptors 0 to 2. Where Node cannot, it runs without. */
function becomeSmall() {
  const isSmall = process.env[IS_SMALL] !== undefined;
  delete process.env[IS_SMALL];
  // What else was handed down, such as a channel to a parent, would not survive.
  if (isSmall || !isDaemon() || process.execve === undefined || process.channel !== undefined) return;
  const args = [process.execPath, ...smallFlags(), ...process.execArgv, ...process.argv.slice(1)];
  try {
    // A call that fails ends Node without an exception: an upgrade may have removed the file that runs here.
    accessSync(process.execPath, constants.X_OK);
    process.execve(process.execPath, args, smallEnvironment());
  } catch {
    // Not on this system, or not permitted.
  }
}

function smallFlags() {
  if (["server", "gateway", "relay"].includes(process.argv[2])) return QUICK;
  return isAgent() ? [...SMALL, ...UNOPTIMIZED] : SMALL;
}

function isAgent() {
  return process.argv[2] === "agent";
}

/** Runs for months: on hosts beside models that need the memory, in the cluster within a limit. */
function isDaemon() {
  return isAgent() || ["controller", "server", "node", "gateway", "relay"].includes(process.argv[2] ?? "");
}

/** glibc gives each thread an arena of its own, which an idle process never gives back. Engines do not inherit it. */
function smallEnvironment() {
  return { MALLOC_ARENA_MAX: "1", ...process.env, [IS_SMALL]: "1" };
}

/** The bundle starts in a tenth of the time; newer sources win during development. */
function entry() {
  const bundle = join(root, "dist", "metalbridge.mjs");
  const sources = join(root, "cli", "main.ts");
  if (!existsSync(sources) || process.env[USE_BUNDLE] !== undefined) return bundle;
  if (!existsSync(bundle)) return sources;
  return newestSourceMs() > statSync(bundle).mtimeMs ? sources : bundle;
}

function newestSourceMs() {
  let newest = 0;
  for (const folder of [
    "src",
    "fitness",
    "agent",
    "controller",
    "gateway",
    "server",
    "launchd",
    "local",
    "cli",
  ]) {
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
  const flags = isDaemon() ? smallFlags() : [];
  const environment = isDaemon() ? smallEnvironment() : process.env;
  const child = spawn(node, [...flags, ...process.argv.slice(1)], {
    stdio: ["inherit", "inherit", "inherit", "pipe"],
    env: { ...environment, METALBRIDGE_LIFELINE: `3:${process.pid}` },
  });
  // A terminal sends them to the child as well, which takes the second for the first; `kill` sends them to us alone.
  for (const signal of ["SIGINT", "SIGHUP", "SIGTERM"]) process.on(signal, () => child.kill(signal));
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
