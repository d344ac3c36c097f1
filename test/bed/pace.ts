/**
 * Engines that answer slowly without using a core: a test whose requests have to last needs their time, not their tokens. The
 * engines of one agent share a cgroup with a quota of CPU time.
 */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findLlamaServer } from "../../local/control-plane/engine-programs.ts";
import { send } from "./signal.ts";
import { until } from "./until.ts";

/** The part of one core that the engines of one agent may use. */
const SHARE = 0.1;
/** As short as the pauses between two tokens may be. */
const PERIOD_US = 20_000;
const ROOT = "/sys/fs/cgroup";

export interface PacedEngine extends AsyncDisposable {
  /** Runs llama-server in the group; itself, where this process may not make such a group. */
  readonly program: string | undefined;
}

/** Writes the program, which runs `engine`, by default llama-server as setup provides it. Disposal ends what still runs in it. */
export function paceEngine(program: string, engine = findLlamaServer(readPartsConfig())): PacedEngine {
  const folder = engine === undefined ? undefined : createGroup(path.basename(program));
  if (folder === undefined) return { program: engine, [Symbol.asyncDispose]: async () => {} };
  const lines = ["#!/bin/sh", `echo $$ > '${folder}/cgroup.procs'`, `exec '${engine}' "$@"`];
  mkdirSync(path.dirname(program), { recursive: true });
  writeFileSync(program, `${lines.join("\n")}\n`, { mode: 0o755 });
  return {
    program,
    [Symbol.asyncDispose]: () =>
      until(() => {
        const pids = readFileSync(path.join(folder, "cgroup.procs"), "utf8").trim().split("\n");
        for (const pid of pids) if (pid !== "") send(Number(pid), "SIGKILL");
        rmdirSync(folder);
      }),
  };
}

let isPaced: boolean | undefined;

/** As many tokens as take about as long as `tokens` of an engine that has a core. */
export function pacedTokens(tokens: number): number {
  if (isPaced === undefined) {
    const folder = createGroup("try");
    isPaced = folder !== undefined;
    if (folder !== undefined) rmdirSync(folder);
  }
  return isPaced ? Math.ceil(tokens * SHARE) : tokens;
}

let count = 0;

function createGroup(name: string): string | undefined {
  count += 1;
  const parent = parentFolder();
  if (parent === undefined) return undefined;
  const folder = path.join(parent, `metalbridge-${process.pid}-${count}-${name}`);
  const quota = PERIOD_US * SHARE;
  try {
    mkdirSync(folder);
  } catch {
    return undefined;
  }
  try {
    if (existsSync(path.join(folder, "cpu.max"))) {
      writeFileSync(path.join(folder, "cpu.max"), `${quota} ${PERIOD_US}`);
    } else {
      writeFileSync(path.join(folder, "cpu.cfs_period_us"), String(PERIOD_US));
      writeFileSync(path.join(folder, "cpu.cfs_quota_us"), String(quota));
    }
    return folder;
  } catch {
    rmdirSync(folder);
    return undefined;
  }
}

/** In version 2 a group with processes has no groups with quotas below it: the new one lies beside this process's own. */
function parentFolder(): string | undefined {
  if (!existsSync("/proc/self/cgroup")) return undefined;
  const lines = readFileSync("/proc/self/cgroup", "utf8").split("\n");
  const one = lines.find((line) => /^\d+:([^:]*,)?cpu(,[^:]*)?:/.test(line));
  if (one !== undefined) return path.join(ROOT, "cpu", pathOf(one));
  const unified = lines.find((line) => line.startsWith("0::"));
  return unified === undefined ? undefined : path.dirname(path.join(ROOT, pathOf(unified)));
}

function pathOf(line: string): string {
  return line.slice(line.indexOf(":", line.indexOf(":") + 1) + 1);
}
