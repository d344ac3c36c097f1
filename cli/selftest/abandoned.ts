/** Starts engines under the shim, kills their parent and adopts them, as after a crash of the agent. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { z } from "zod";
import { packageRoot } from "../../local/package-root.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { createIdentityReader } from "../../src/supervise/identity/identity.ts";
import type { ProcessState, SupervisedProcess } from "../../src/supervise/supervised.ts";
import { createSupervisor } from "../../src/supervise/supervisor.ts";
import { createJsonLog } from "../program/json-log.ts";
import { printLine } from "../program/output.ts";
import type { Bench } from "./step.ts";

/** Hidden flag of the parent, which starts one engine, reports its pid, and waits to be killed. */
export const PARENT_FLAG = "--as-parent";

const commandSchema = z.object({
  dir: z.string(),
  argv: z.array(z.string()),
  env: z.record(z.string(), z.string()),
});
type Command = z.output<typeof commandSchema>;

export interface Adopted {
  readonly process: SupervisedProcess;
  readonly dir: string;
  readonly pid: number;
  /** Rejects when `signal` is aborted first. */
  readonly until: (at: ProcessState["at"], signal: AbortSignal) => Promise<ProcessState>;
}

/** Long, so that only the FIFOs report changes. */
export const SELFTEST_SWEEP_MS = 60_000;

const engines = () =>
  createSupervisor({
    clock: systemClock,
    log: createJsonLog("silent"),
    identity: createIdentityReader(process.platform),
    sweepMs: SELFTEST_SWEEP_MS,
  });

/** The parent in {@link startAbandoned}. Reads one JSON line from standard input, and exits when standard input ends. */
export async function runAsParent(): Promise<void> {
  const input = createInterface({ input: process.stdin });
  const [line] = await once(input, "line");
  const { dir, ...command } = commandSchema.parse(JSON.parse(String(line)));
  const { promise: changed, resolve: wake } = Promise.withResolvers<void>();
  const engine = await engines().start(dir, { ...command, record: { by: "selftest" } }, () => wake());
  if (engine.state().at === "starting") await changed;
  const state = engine.state();
  printLine(state.at === "running" ? String(state.pid) : state.at);
  await once(input, "close");
  engine.close();
}

/** `name` is the name of the run directory. The clean-up of the bench kills all processes. */
export async function startAbandoned(
  bench: Bench,
  name: string,
  command: Omit<Command, "dir">,
): Promise<Adopted> {
  const dir = join(bench.folder, name);
  bench.cleanUp(() => endEngine(dir));
  const program = join(packageRoot(), "cli", "metalbridge.mjs");
  const parent = spawn(process.execPath, [program, "selftest", PARENT_FLAG], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = once(parent, "exit");
  // Registered last and so run first: until the parent is dead, it may still start the engine.
  bench.cleanUp(async () => {
    if (parent.kill("SIGKILL")) await exited;
  });
  const lines = createInterface({ input: parent.stdout });
  parent.stdin.write(`${JSON.stringify({ dir, ...command })}\n`);
  const [reportedPid] = await Promise.race([once(lines, "line", { signal: bench.signal }), exited]);
  parent.kill("SIGKILL");
  await exited;
  const adopted = await adopt(dir);
  const state = adopted?.process.state();
  if (adopted === undefined || state?.at !== "running" || String(state.pid) !== reportedPid)
    throw new MetalbridgeError(
      "EngineStartFailed",
      `started with pid ${reportedPid}, but found ${state === undefined ? "nothing" : JSON.stringify(state)} after its parent was killed`,
    );
  return { ...adopted, pid: state.pid };
}

async function adopt(dir: string): Promise<Omit<Adopted, "pid"> | undefined> {
  const checks = new Set<() => void>();
  const engine = await engines().adopt(dir, () => {
    for (const check of checks) check();
  });
  if (engine === undefined) return undefined;
  const until: Adopted["until"] = (at, signal) =>
    new Promise((resolve, reject) => {
      const check = (): void => {
        if (engine.state().at === at) resolve(engine.state());
      };
      checks.add(check);
      signal.addEventListener("abort", () => reject(new Error(`never ${at}`)), { once: true });
      check();
    });
  return { process: engine, dir, until };
}

const END_MS = 5_000;

async function endEngine(dir: string): Promise<void> {
  const adopted = await adopt(dir);
  if (adopted === undefined) return;
  await adopted.process.signal("KILL");
  adopted.process.killGroup();
  await adopted.until("gone", AbortSignal.timeout(END_MS)).finally(() => adopted.process.close());
}
