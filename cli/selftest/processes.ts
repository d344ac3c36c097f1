/** Checks processes, FIFOs and ports of the kernel, on which the agent relies. Never uses recordings. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { routedAddress } from "../../agent/host/routed-address.ts";
import { isFree, isPortAnswering } from "../../agent/instances/process/engine-port.ts";
import { createIdentityReader } from "../../src/supervise/identity/identity.ts";
import { runMark } from "../../src/supervise/run-directory.ts";
import { SELFTEST_SWEEP_MS, startAbandoned } from "./abandoned.ts";
import {
  type Bench,
  failedStep,
  notApplicableStep,
  passedStep,
  type SelftestOutcome,
  type SelftestStep,
} from "./step.ts";

const BOTH = ["darwin", "linux"] as const;
/** The FIFOs must report an exit long before the sweep would. */
const MAX_REPORT_MS = SELFTEST_SWEEP_MS / 3;

export const processSteps: readonly SelftestStep[] = [
  { name: "identity", proves: "pid and start time identify a process", platforms: BOTH, run: checkIdentity },
  {
    name: "activity",
    proves: "a stopped process is distinguished from a sleeping one",
    platforms: BOTH,
    run: checkActivity,
  },
  {
    name: "adoption",
    proves: "an engine outlives its killed parent under the shim, and is adopted with pid and log",
    platforms: BOTH,
    run: checkAdoption,
  },
  {
    name: "mark",
    proves: "an engine is found by its environment when its run directory is lost",
    platforms: BOTH,
    run: checkMark,
  },
  {
    name: "fifo",
    proves: "an exit is reported through the FIFO at once, with the status that the shim wrote",
    platforms: BOTH,
    run: checkFifo,
  },
  {
    name: "bind",
    proves: "a port can be held on loopback and on the host's address, and only there",
    platforms: BOTH,
    run: checkBind,
  },
];

/** Not a system program, because macOS hides the environment of system programs. */
const IDLE = ["-e", "console.log('idle'); setInterval(() => {}, 1_000_000)"];
const idle = (bench: Bench, name: string) =>
  startAbandoned(bench, name, { argv: [process.execPath, ...IDLE], env: { PATH: bench.path } });

async function checkIdentity(): Promise<SelftestOutcome> {
  const { startTimeNow, observe } = createIdentityReader(process.platform);
  const startTime = startTimeNow(process.pid);
  if (startTime === undefined || startTime === "unknown") return failedStep("the start time cannot be read");
  const seen = await observe([process.pid]);
  if (seen === "unknown" || seen.get(process.pid)?.startTime !== startTime)
    return failedStep("two ways to read the start time differ");
  const child = spawn(process.execPath, ["-e", ""], { stdio: "ignore" });
  await once(child, "exit");
  return startTimeNow(child.pid ?? 0) === undefined
    ? passedStep(`started ${startTime}`)
    : failedStep("a process that has exited has a start time");
}

async function checkActivity({ signal, cleanUp }: Bench): Promise<SelftestOutcome> {
  const { activity } = createIdentityReader(process.platform);
  const child = spawn("sleep", ["600"], { stdio: "ignore" });
  cleanUp(async () => void child.kill("SIGKILL"));
  await once(child, "spawn");
  const pid = child.pid ?? 0;
  for (const [change, expected] of [
    ["SIGCONT", "asleep"],
    ["SIGSTOP", "stopped"],
  ] as const) {
    child.kill(change);
    while ((await activity(pid)) !== expected)
      if (signal.aborted) return failedStep(`never seen as ${expected}`);
  }
  return passedStep("asleep, then stopped");
}

async function checkAdoption(bench: Bench): Promise<SelftestOutcome> {
  const { process: engine, pid, dir, until } = await idle(bench, "adoption");
  const log = await readFile(join(dir, "log"), "utf8");
  await engine.signal("TERM");
  await until("gone", bench.signal);
  return log.startsWith("---")
    ? passedStep(`pid ${pid} adopted and ended`)
    : failedStep(`its log starts with ${log.slice(0, 40)}`);
}

async function checkMark(bench: Bench): Promise<SelftestOutcome> {
  const { pid, dir } = await idle(bench, "mark");
  const marked = await createIdentityReader(process.platform).marked(runMark(dir));
  if (marked === "unknown") return failedStep("environments cannot be read");
  return marked.some((one) => one.pid === pid)
    ? passedStep(`${marked.length} processes carry it`)
    : failedStep("the engine's environment does not show");
}

async function checkFifo(bench: Bench): Promise<SelftestOutcome> {
  const { pid, until } = await idle(bench, "fifo");
  const startMs = performance.now();
  process.kill(pid, "SIGSEGV");
  const state = await until("gone", bench.signal);
  const tookMs = Math.round(performance.now() - startMs);
  const exit = state.at === "gone" ? JSON.stringify(state.exit) : "";
  if (exit !== '{"signal":"SIGSEGV"}') return failedStep(`the exit is ${exit}`);
  return tookMs <= MAX_REPORT_MS ? passedStep(`after ${tookMs} ms`) : failedStep(`only after ${tookMs} ms`);
}

/** The address that engines bind to: configured, or from the default route. */
export async function ownAddress({ config }: Pick<Bench, "config">): Promise<string | undefined> {
  return config.addresses[0] ?? (await routedAddress("http://127.0.0.1"));
}

async function checkBind(bench: Bench): Promise<SelftestOutcome> {
  const address = await ownAddress(bench);
  if (address === undefined) return notApplicableStep("this machine has no address but loopback");
  const loopback = await listen(bench, 0, "127.0.0.1");
  const { port } = loopback.address() as { readonly port: number };
  if (await isPortAnswering(port, address))
    return failedStep("a listener on loopback answers on the address");
  const second = await listen(bench, port, address);
  const both = (await isPortAnswering(port, address)) && (await isPortAnswering(port, "127.0.0.1"));
  const isFreeNow = await isFree(port, ["127.0.0.1", address]);
  await Promise.all([loopback, second].map(close));
  if (!both || isFreeNow) return failedStep("a port that is held does not answer, or counts as free");
  return passedStep("held on both, answers on both");
}

async function listen({ cleanUp }: Bench, port: number, host: string): Promise<Server> {
  const server = createServer((socket) => socket.destroy());
  cleanUp(() => close(server));
  await once(server.listen({ port, host, exclusive: true }), "listening");
  return server;
}

async function close(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, "close");
  server.close();
  await closed;
}
