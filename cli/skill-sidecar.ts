/** `metalbridge skill-sidecar`: runs the reading commands of an agent, as the sidecar of a SkillPack of Sympozium. */

import { execFile } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { setInterval } from "node:timers/promises";
import type { Command } from "commander";
import { listenForStop } from "./program/stop-signals.ts";
import { decideExecRequest, type ExecDecision } from "./skill-sidecar/request.ts";

interface Flags {
  readonly ipc: string;
  readonly pack: string;
}

/** The agent looks for a result every 150 ms. */
const POLL_MS = 150;
/** Each is a process of about 150 MiB. */
const MAX_RUNNING = 2;
const MAX_REQUEST_BYTES = 64 * 1024;
const MAX_OUTPUT_BYTES = 50_000;
/** As in a shell: a command that is not executed, and one that did not end in time. */
const REFUSED = 126;
const TIMED_OUT = 124;

interface ExecResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly timedOut: boolean;
}

/** Options and action of the verb. */
export function configureSkillSidecar(command: Command): void {
  command
    .option("--ipc <folder>", "folder that the pod shares with the agent", "/ipc")
    .option("--pack <name>", "name of the SkillPack, the target of the agent's commands", "metalbridge")
    .action(runSidecar);
}

/** Ends when the agent has exited, or at a signal. */
async function runSidecar({ ipc, pack }: Flags): Promise<void> {
  const { signal } = listenForStop();
  const tools = path.join(ipc, "tools");
  mkdirSync(tools, { recursive: true });
  const running = new Set<string>();
  const take = (id: string): void => {
    const decision = decideExecRequest(readRequest(tools, id), pack);
    if (decision.at === "other" || !claim(tools, id)) return;
    running.add(id);
    void resultOf(decision, signal).then((result) => {
      writeResult(tools, id, result);
      running.delete(id);
    });
  };
  try {
    for await (const _ of setInterval(POLL_MS, undefined, { signal })) {
      if (existsSync(path.join(ipc, "done"))) return;
      for (const id of waitingIn(tools)) if (running.size < MAX_RUNNING) take(id);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** Requests without a result that no sidecar has claimed. */
function waitingIn(tools: string): readonly string[] {
  const names = new Set(readdirSync(tools));
  return [...names].flatMap((name) => {
    const [, id] = /^exec-request-([\w.-]{1,128})\.json$/.exec(name) ?? [];
    return id === undefined || names.has(`.claim-${id}`) || names.has(`exec-result-${id}.json`) ? [] : [id];
  });
}

/** Empty for anything but a plain file of a usual size, and for one that the agent has removed. */
function readRequest(tools: string, id: string): string {
  const file = path.join(tools, `exec-request-${id}.json`);
  try {
    const { size } = lstatSync(file);
    return lstatSync(file).isFile() && size <= MAX_REQUEST_BYTES ? readFileSync(file, "utf8") : "";
  } catch {
    return "";
  }
}

/** The folder is the lock that the sidecars of a pod share. */
function claim(tools: string, id: string): boolean {
  try {
    mkdirSync(path.join(tools, `.claim-${id}`));
    return true;
  } catch {
    return false;
  }
}

async function resultOf(
  decision: Exclude<ExecDecision, { readonly at: "other" }>,
  signal: AbortSignal,
): Promise<ExecResult> {
  if (decision.at === "refused")
    return { exitCode: REFUSED, stdout: "", stderr: decision.why, timedOut: false };
  const options = {
    timeout: decision.timeoutMs,
    killSignal: "SIGKILL",
    maxBuffer: MAX_OUTPUT_BYTES,
    signal,
  } as const;
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [process.argv[1] ?? "", ...decision.args],
      options,
      (error, stdout, stderr) => {
        if (error === null) return resolve({ exitCode: 0, stdout, stderr, timedOut: false });
        const isCut = error.code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER";
        const timedOut = !isCut && error.killed === true;
        const note = isCut ? `cut after ${MAX_OUTPUT_BYTES} bytes: use --limit or name one object\n` : "";
        const exitCode = typeof error.code === "number" ? error.code : timedOut ? TIMED_OUT : 1;
        resolve({ exitCode, stdout, stderr: `${note}${stderr}`, timedOut });
      },
    );
  });
}

/** In one step, because the agent reads as soon as the file is there. */
function writeResult(tools: string, id: string, result: ExecResult): void {
  const file = path.join(tools, `exec-result-${id}.json`);
  writeFileSync(`${file}.tmp`, JSON.stringify({ id, ...result }));
  renameSync(`${file}.tmp`, file);
}
