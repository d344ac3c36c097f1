/** The governor over a recorded Mac whose pressure the test sets, with real engines and a real API server. */
import { expect, test, vi } from "vitest";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { defaultLimits, type GovernorLimits } from "../../src/memory/governor/limits.ts";
import type { Log } from "../../src/ports.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { M4_MAX, type Replay, startReplay } from "../../test/macos/replay.ts";
import type { Agent } from "../../test/replicas/agent.ts";
import { type Bench, createBench } from "../../test/replicas/bench.ts";
import { createRunCommand } from "../host/command.ts";
import { createHostReader } from "../host/reader.ts";
import { createPressureWatch, type PressureWatch } from "./pressure-watch.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
const LEVEL = "kern.memorystatus_vm_pressure_level";
const quick: GovernorLimits = {
  ...defaultLimits,
  readMs: 100,
  criticalReadMs: 50,
  leaveCriticalMs: 200,
  leaveWarningMs: 200,
  returnGapMs: 100,
  awayFirstMs: 200,
};
const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => quiet };

interface Governed {
  readonly agent: Agent;
  readonly watch: PressureWatch;
  readonly end: () => Promise<void>;
}

async function startGoverned(bench: Bench, mac: Replay): Promise<Governed> {
  const ending = new AbortController();
  const watches: PressureWatch[] = [];
  const agent = await bench.startAgent({
    mayStart: (uid) => watches[0]?.mayStart(uid) ?? { at: "held", because: "nothing was read yet" },
  });
  const watch = createPressureWatch({
    reader: createHostReader("darwin", createRunCommand(mac.path)),
    runner: agent.runner,
    mayEvict: () => true,
    clock: systemClock,
    log: quiet,
    signal: ending.signal,
    limits: quick,
  });
  watches.push(watch);
  await watch.start();
  const end = async (): Promise<void> => {
    ending.abort();
    await agent.end();
  };
  return { agent, watch, end };
}

function small(priority: InferenceReplica["spec"]["priority"], isProtected = false) {
  return (spec: InferenceReplica["spec"]): void => {
    Object.assign(spec, { priority, evictionProtection: isProtected });
    Object.assign(spec.template.engine, { promptCacheMiB: 0 });
  };
}

it("under critical pressure ends the lowest engine, holds others back, keeps that across a restart, and brings all back", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  await using mac = await startReplay(M4_MAX);
  const first = await startGoverned(bench, mac);
  await bench.createReplica("low-0-a", small("low"));
  await bench.createReplica("kept-0-a", small("batch", true));
  await bench.untilPhase("low-0-a", "Ready");
  const kept = await bench.untilPhase("kept-0-a", "Ready");

  await mac.setKey(LEVEL, "4");
  const evicted = await bench.untilPhase("low-0-a", "Evicted");
  expect(evicted.status).toMatchObject({ reason: "EvictedForMemory" });
  expect(evicted.status?.message).toMatch(/the system says critical.*returns when memory has recovered/);
  expect(evicted.status?.pid).toBeUndefined();
  const slice = await bench.slice("low-0-a");
  expect(slice?.endpoints?.every(({ conditions }) => conditions?.ready === false)).toBe(true);
  await bench.createReplica("late-0-a", small("high"));
  const held = await bench.untilPhase("late-0-a", "Waiting");
  expect(held.status).toMatchObject({ reason: "MemoryPressure" });
  expect(first.watch.judgement()).toMatchObject({ level: "Critical" });

  await first.end();
  const second = await startGoverned(bench, mac);
  await vi.waitFor(() => expect(second.watch.judgement()?.level).toBe("Critical"), { timeout: 10_000 });
  expect((await bench.replica("low-0-a"))?.status?.phase).toBe("Evicted");
  expect((await bench.replica("kept-0-a"))?.status?.pid).toBe(kept.status?.pid);

  await mac.setKey(LEVEL, "1");
  const late = await bench.untilPhase("late-0-a", "Ready");
  const back = await bench.untilPhase("low-0-a", "Ready");
  // The higher priority first, and the next only when that was ready.
  const at = (iso: string | undefined): number => Date.parse(iso ?? "");
  expect(at(back.status?.startedAt)).toBeGreaterThanOrEqual(at(late.status?.readyAt));
  await second.end();
});
