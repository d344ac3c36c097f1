/** `metalbridge skill-sidecar`: runs the reading commands of an agent, as the sidecar of a SkillPack of Sympozium. */

import { execFile } from "node:child_process";
import { existsSync, fchmodSync, mkdirSync, realpathSync, rmSync, statSync, utimesSync } from "node:fs";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { setInterval, setTimeout } from "node:timers/promises";
import type { Command } from "commander";
import { writeFileAtomicSync } from "../src/util/atomic-file.ts";
import { readPlainFile } from "../src/util/plain-file.ts";
import { printNote } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";
import { decideExecRequest, type ExecDecision } from "./skill-sidecar/request.ts";

interface Flags {
  readonly ipc: string;
  readonly pack: string;
  readonly workspace: string;
}

/** The agent looks for a result every 150 ms. */
const POLL_MS = 150;
/** After a result that could not be written. */
const RETRY_MS = 1_000;
/** A claim is renewed at every poll. Above it, the sidecar that made the claim has exited: much longer than a container is throttled. */
const CLAIM_EXPIRES_MS = 10_000;
/** A command that ends its sidecar, for example for lack of memory, must not do so forever. */
const MAX_CLAIMS = 3;
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
    .option("--workspace <folder>", "folder of the agent's files, where its commands run", "/workspace")
    .action(runSidecar);
}

/** Ends when the agent has exited, or at a signal. */
async function runSidecar({ ipc, pack, workspace }: Flags): Promise<void> {
  const { signal } = listenForStop();
  const tools = path.join(ipc, "tools");
  mkdirSync(tools, { recursive: true });
  const running = new Set<string>();
  const take = ({ id, claims }: Waiting): void => {
    const decision = decideExecRequest(readRequest(tools, id), pack);
    const claim = claimOf(tools, id, claims);
    if (decision.at === "other" || !makeFolder(claim)) return;
    running.add(claim);
    void resultOf(claims < MAX_CLAIMS ? decision : { at: "refused", why: ENDS_SIDECAR }, workspace, signal)
      .then((result) => writeResult(tools, id, result))
      .catch(async (error: unknown) => {
        printNote(`request ${id}: ${error instanceof Error ? error.message : error}`);
        await setTimeout(RETRY_MS, undefined, { signal });
        rmSync(claim, { recursive: true, force: true });
      })
      // It ends, or the claim cannot be removed either: then the request is not taken again.
      .catch(() => {})
      .finally(() => running.delete(claim));
  };
  try {
    for await (const _ of setInterval(POLL_MS, undefined, { signal })) {
      if (existsSync(path.join(ipc, "done"))) return;
      for (const claim of running) renew(claim);
      for (const one of await waitingIn(tools)) if (running.size < MAX_RUNNING) take(one);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

interface Waiting {
  readonly id: string;
  /** Claims of sidecars that have exited without a result, such as an earlier container of this one. */
  readonly claims: number;
}

/** Requests without a result that no running sidecar has claimed; none in a folder that the agent has removed. */
async function waitingIn(tools: string): Promise<readonly Waiting[]> {
  const names = new Set(await readdir(tools).catch(() => []));
  return [...names].flatMap((name) => {
    const [, id] = /^exec-request-([\w.-]{1,128})\.json$/.exec(name) ?? [];
    if (id === undefined || names.has(`exec-result-${id}.json`)) return [];
    let claims = 0;
    while (names.has(path.basename(claimOf(tools, id, claims)))) claims += 1;
    if (claims > MAX_CLAIMS) return [];
    return claims > 0 && !isExpired(claimOf(tools, id, claims - 1)) ? [] : [{ id, claims }];
  });
}

/** Empty for anything but a plain file of a usual size, and for one that the agent has removed. */
function readRequest(tools: string, id: string): string {
  try {
    return readPlainFile(path.join(tools, `exec-request-${id}.json`), { maxBytes: MAX_REQUEST_BYTES });
  } catch {
    return "";
  }
}

/** The folder is the lock that the sidecars of a pod share. Each claim has its own, so that only one sidecar can make it. */
function claimOf(tools: string, id: string, earlier: number): string {
  return path.join(tools, `.claim-${id}${earlier === 0 ? "" : `~${earlier}`}`);
}

function makeFolder(folder: string): boolean {
  try {
    mkdirSync(folder);
    return true;
  } catch {
    return false;
  }
}

function renew(claim: string): void {
  const now = new Date();
  try {
    utimesSync(claim, now, now);
  } catch {
    // The agent has removed it.
  }
}

/** False if it has been removed: then it is read again. */
function isExpired(claim: string): boolean {
  const { mtimeMs = Number.POSITIVE_INFINITY } = statSync(claim, { throwIfNoEntry: false }) ?? {};
  return Date.now() - mtimeMs > CLAIM_EXPIRES_MS;
}

async function resultOf(
  decision: Exclude<ExecDecision, { readonly at: "other" }>,
  workspace: string,
  signal: AbortSignal,
): Promise<ExecResult> {
  if (decision.at === "run")
    // It fails for an argument that no process takes.
    return execute(decision, workspace, signal).catch((error: unknown) => refusal(String(error)));
  return refusal(decision.why);
}

const ENDS_SIDECAR = `the sidecar ended ${MAX_CLAIMS} times while it ran this command, probably for lack of memory; name one object, or use --limit`;

const refusal = (stderr: string): ExecResult => ({ exitCode: REFUSED, stdout: "", stderr, timedOut: false });

async function execute(
  { args, timeoutMs, workDir }: Extract<ExecDecision, { readonly at: "run" }>,
  workspace: string,
  signal: AbortSignal,
): Promise<ExecResult> {
  const options = {
    cwd: folderWithin(workspace, workDir),
    timeout: timeoutMs,
    killSignal: "SIGKILL",
    maxBuffer: MAX_OUTPUT_BYTES,
    signal,
  } as const;
  return new Promise((resolve) => {
    execFile(process.execPath, [process.argv[1] ?? "", ...args], options, (error, stdout, stderr) => {
      if (error === null) return resolve({ exitCode: 0, stdout, stderr, timedOut: false });
      const isCut = error.code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER";
      const timedOut = !isCut && error.killed === true;
      const note = isCut ? `cut after ${MAX_OUTPUT_BYTES} bytes: use --limit or name one object\n` : "";
      const exitCode = typeof error.code === "number" ? error.code : timedOut ? TIMED_OUT : 1;
      resolve({ exitCode, stdout, stderr: `${note}${stderr}`, timedOut });
    });
  });
}

/** The workspace in place of a folder that is missing or lies elsewhere. */
function folderWithin(workspace: string, workDir: string): string | undefined {
  try {
    const folder = `${realpathSync(path.resolve(workspace, workDir))}/`;
    // With the slash, a file does not exist.
    if (folder.startsWith(`${realpathSync(workspace)}/`) && existsSync(folder)) return folder;
  } catch {
    // Missing, or not a path.
  }
  return existsSync(workspace) ? workspace : undefined;
}

/** In one step, because the agent, which is another user, reads as soon as the file is there. */
function writeResult(tools: string, id: string, result: ExecResult): void {
  writeFileAtomicSync(path.join(tools, `exec-result-${id}.json`), JSON.stringify({ id, ...result }), {
    prepare: (file) => fchmodSync(file, 0o644),
  });
}
