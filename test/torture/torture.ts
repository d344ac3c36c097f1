/** One run: the farm is set up, tortured by the schedule, left in peace, taken down, and judged. */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { isConditionTrue } from "../../src/api/conditions.ts";
import type { Host } from "../../src/api/host.ts";
import { until } from "../bed/until.ts";
import { type Bed, CLIENTS, openBed } from "./bed/bed.ts";
import type { FaultContext } from "./faults/fault.ts";
import { startJudge } from "./judge.ts";
import { keepLoadOn } from "./load/keep-load-on.ts";
import { startLoad } from "./load/load.ts";
import { watchCluster } from "./observe/cluster.ts";
import { watchEngines } from "./observe/engines.ts";
import { watchLag } from "./observe/lag.ts";
import { watchAudit, watchProxy } from "./observe/proxy.ts";
import { createRecorder } from "./observe/recorder.ts";
import { eventsOf } from "./observe/recording.ts";
import { type EngineName, HOSTS } from "./plan/catalog.ts";
import { planFaults } from "./plan/plan-faults.ts";
import { type Report, reportOf } from "./report/report.ts";
import { describeEvent } from "./report/timeline.ts";
import { runRound, untilConverged } from "./rounds.ts";
import { takeDown } from "./take-down.ts";

export interface TortureOptions {
  readonly seed: number;
  readonly minutes: number;
  readonly engine?: EngineName;
  /** Real nodes beside the hosts; none by default. */
  readonly nodes?: number;
  /** For the recording and the logs of all parts; made if it is not there. */
  readonly outDir: string;
  readonly print: (line: string) => void;
  readonly signal?: AbortSignal;
}

/** Resolves with what was found, violated invariants included; rejects where the harness itself failed. */
export async function torture(options: TortureOptions): Promise<Report> {
  const { seed, minutes, engine = "llamacpp", nodes = 0, outDir, print, signal } = options;
  mkdirSync(outDir, { recursive: true });
  const schedule = planFaults(seed, minutes, engine, nodes);
  const recorder = createRecorder(path.join(outDir, "events.jsonl"), (event) => {
    const line = describeEvent(event);
    if (line !== undefined) print(line);
  });
  const bed = await openBed(path.join(outDir, "farm"), engine, nodes);
  const stop = new AbortController();
  const cleanups: (() => unknown)[] = [() => stop.abort()];
  try {
    const context = await observe(bed, recorder, stop.signal, cleanups, { seed, engine });
    const judge = startJudge(recorder, print);
    cleanups.push(judge.stop);
    await begin(context);
    for (const round of schedule.rounds) {
      if (signal?.aborted === true) break;
      await runRound(context, round);
    }
    await takeDown(context);
    return reportOf(recorder.recording(), schedule, judge.finish());
  } finally {
    for (const cleanup of cleanups.reverse()) await cleanup();
    await bed[Symbol.asyncDispose]();
  }
}

async function observe(
  bed: Bed,
  recorder: FaultContext["recorder"],
  signal: AbortSignal,
  cleanups: (() => unknown)[],
  { seed, engine }: { readonly seed: number; readonly engine: EngineName },
): Promise<FaultContext> {
  const hosts = [...bed.hosts.values()];
  const engines = watchEngines(recorder, hosts, [...bed.nodes.values()]);
  cleanups.push(engines.stop, watchLag(recorder), watchProxy(recorder, bed.network.station(CLIENTS)));
  cleanups.push(watchAudit(recorder, bed.auditFile, bed.network.station(CLIENTS)));
  const load = startLoad(recorder, bed.network.station(CLIENTS), seed, bed.gateway);
  cleanups.push(load.stop);
  const cluster = await watchCluster(recorder, bed.connection, signal);
  const context: FaultContext = { engine, bed, recorder, engines, cluster, load };
  cleanups.push(keepLoadOn(context));
  return context;
}

/** All parts start, and everything is well once before the first fault. */
async function begin(context: FaultContext): Promise<void> {
  const { bed, recorder } = context;
  for (const name of bed.hosts.keys()) await bed.objects.createHost(name, bed.network.cidr);
  const controller = bed.controller;
  controller.onUnasked((code) => {
    recorder.note({ type: "part", part: "controller", change: "endedUnasked", detail: `code ${code}` });
  });
  controller.start();
  recorder.note({ type: "part", part: "controller", change: "started" });
  const { part: gateway } = bed.gateway;
  gateway.onUnasked((code) => {
    recorder.note({ type: "part", part: "gateway", change: "endedUnasked", detail: `code ${code}` });
    // As launchd does.
    gateway.start();
    recorder.note({ type: "part", part: "gateway", change: "started" });
  });
  gateway.start();
  recorder.note({ type: "part", part: "gateway", change: "started" });
  for (const { agent, name: host } of bed.hosts.values()) {
    agent.onUnasked((code) => {
      recorder.note({ type: "part", part: "agent", host, change: "endedUnasked", detail: `code ${code}` });
    });
    agent.start();
    recorder.note({ type: "part", part: "agent", host, change: "started" });
  }
  for (const host of bed.nodes.keys())
    recorder.note({ type: "part", part: "kubelet", host, change: "started" });
  await untilHostsReady(context);
  for (const name of bed.services) await bed.objects.createService(name, 0);
  // The parts have started; from here on they are judged.
  recorder.note({ type: "round", index: -1, change: "healed", reasons: [] });
  await untilConverged(context, -1);
  await untilProxySeen(context);
}

/** Rules that we cannot read would excuse what they should judge. */
async function untilProxySeen({ recorder }: FaultContext): Promise<void> {
  await until(() => {
    if (!eventsOf(recorder.recording(), "proxy").some(({ endpoints }) => endpoints.length > 0))
      throw new Error("no endpoint is seen in the rules of kube-proxy");
  });
}

/** Or the first host would get everything. */
async function untilHostsReady({ cluster }: FaultContext): Promise<void> {
  const isReady = ({ status }: Host) =>
    ["Ready", "Reachable"].every((type) => isConditionTrue(status?.conditions, type));
  await until(() => {
    if (cluster.hosts.list().filter(isReady).length < HOSTS.length)
      throw new Error("the hosts did not become ready; see the logs of agents");
  });
}
