/** Cost of an idle agent: CPU, memory, requests to the API server. */
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { benchmarkOrderSchema } from "../../../src/api/benchmark.ts";
import type { Host } from "../../../src/api/host.ts";
import { HOSTS } from "../../../src/api/kinds.ts";
import { must } from "../../../test/bed/must.ts";
import { M4_MAX, startReplay } from "../../../test/bed/replay.ts";
import type { Bed } from "../beds/bed.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
import { agentReady } from "./adopt.ts";

/** Clock ticks of Linux's /proc, USER_HZ: 100 on every architecture that Node runs on. */
const TICKS_PER_SECOND = 100;

/** After the last change: Node collects then what it left behind. */
const SETTLE_MS = 20_000;

/** Requests are the API server's own count of our kinds, with the controller stopped; Lease renewals are of another group. */
export async function measureIdle(bed: Bed, minutes: number): Promise<readonly ScenarioResult[]> {
  await bed.fleet.controller().kill("SIGTERM");
  const { pid } = bed.fleet.agent();
  await pause(SETTLE_MS);
  const before = await ourRequests(bed);
  const { cpu, seconds } = await cpuOver(pid, minutes);
  const requests = ((await ourRequests(bed)) - before) / (seconds / 60);
  const engines = bed.replicas.list().length;
  const after = `idle agent, ${engines} engines, ${minutes} min`;
  return [
    measured(`${after}: CPU of one core`, "%", [cpu], { max: 0.3 }),
    measured(`${after}: resident`, "MB", [megabytes(pid, "VmRSS")], { max: 90 }),
    measured(`${after}: anonymous`, "MB", [megabytes(pid, "RssAnon")], { max: 30 }),
    measured(`${after}: API requests`, "1/min", [requests], { max: 10 }),
  ];
}

/** The same agent with a benchmark ordered, for which it waits as long as its engines serve. */
export async function measureIdleWithOrder(bed: Bed, minutes: number): Promise<readonly ScenarioResult[]> {
  const { pid } = bed.fleet.agent();
  const order = benchmarkOrderSchema.parse({
    ...{ key: "bench", namespace: "default", name: "bench", runtime: "llamacpp", deviceClass: "bench" },
    model: { source: "/models/unused.gguf", format: "gguf" },
    settings: {},
    plan: { warmups: 2, runs: 5, tokens: 128 },
  });
  const name = bed.hosts.list()[0]?.metadata.name ?? "";
  const ordered = { metadata: { name }, status: { benchmark: { order } } } as Host;
  must(await bed.client.apply(HOSTS, ordered, { manager: "bench", subresource: "status" }));
  await bed.changed.until(
    "a benchmark that waits",
    () => bed.hosts.list().some(({ status }) => status?.benchmark?.state?.phase === "Waiting") || undefined,
  );
  await pause(SETTLE_MS);
  const { cpu } = await cpuOver(pid, minutes);
  const what = `idle agent, ${bed.replicas.list().length} engines, a benchmark ordered, ${minutes} min`;
  return [measured(`${what}: CPU of one core`, "%", [cpu], { max: 0.3 })];
}

/** Share of a core in percent, and how long it was observed. */
async function cpuOver(pid: number, minutes: number) {
  const before = { cpu: cpuSeconds(pid), at: performance.now() };
  await pause(minutes * 60_000);
  const seconds = (performance.now() - before.at) / 1_000;
  return { cpu: ((cpuSeconds(pid) - before.cpu) / seconds) * 100, seconds };
}

const MAC_MINUTES = 5;

/**
 * The same agent as it works on a Mac, which is read by its tools: recordings that short programs play. Their time, with
 * that of the shell that runs them, counts with the agent's own.
 */
export async function measureIdleAsMac(bed: Bed, minutes: number): Promise<readonly ScenarioResult[]> {
  await using mac = await startReplay(M4_MAX);
  await bed.fleet.agent().kill("SIGKILL");
  const { pid } = bed.fleet.restartAgent({
    args: ["--platform", "darwin"],
    launcher: ["env", `PATH=${mac.path}`, process.execPath],
  });
  // The replay's id of the machine makes it another agent: it waits until the Lease of the one before has expired.
  await agentReady(bed);
  await pause(SETTLE_MS);
  const before = { cpu: cpuSeconds(pid), children: childSeconds(pid), at: performance.now() };
  const forMinutes = Math.min(MAC_MINUTES, minutes);
  await pause(forMinutes * 60_000);
  const seconds = (performance.now() - before.at) / 1_000;
  const share = (spent: number) => (spent / seconds) * 100;
  const agent = share(cpuSeconds(pid) - before.cpu);
  const tools = share(childSeconds(pid) - before.children);
  const name = `idle agent as on a Mac, ${bed.replicas.list().length} engines, ${forMinutes} min`;
  return [
    measured(`${name}: CPU of one core`, "%", [agent]),
    measured(`${name}: CPU of the tools it asks`, "%", [tools]),
    measured(`${name}: CPU of both`, "%", [agent + tools], { max: 0.3 }),
  ];
}

export function cpuSeconds(pid: number): number {
  const fields = statFields(pid);
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

/** CPU time of exited and running descendants. Engine shims are not included, because they are not children of the agent. */
function childSeconds(pid: number): number {
  const ended = (of: number): number => {
    const fields = statFields(of);
    return (Number(fields[13]) + Number(fields[14])) / TICKS_PER_SECOND;
  };
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  const living = text.trim().split(" ").filter(Boolean).map(Number);
  return living.reduce((sum, child) => sum + cpuSeconds(child) + ended(child), ended(pid));
}

/** From the state on: what stands after the program's name. */
function statFields(pid: number): readonly string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

export function megabytes(pid: number, key: "VmRSS" | "RssAnon" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return (Number(new RegExp(`^${key}:\\s+(\\d+) kB`, "m").exec(status)?.[1]) * 1_024) / 1e6;
}

async function ourRequests(bed: Bed): Promise<number> {
  const result = await bed.connection.request({ method: "GET", path: "/metrics", timeoutMs: 30_000 });
  if (!result.ok) throw new Error(result.error.message);
  return result.value
    .split("\n")
    .filter(
      (line) =>
        line.startsWith("apiserver_request_total{") &&
        /group="(metalbridge\.dev|events\.k8s\.io)"/.test(line),
    )
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}
