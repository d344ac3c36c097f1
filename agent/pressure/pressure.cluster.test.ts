/** The governor with real engines and a real API server: over a recorded Mac whose pressure the test sets, and over a real hog. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, test, vi } from "vitest";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { createRunCommand } from "../../src/util/command.ts";
import { availableTo, createMemoryGroup } from "../../test/bed/memory-group.ts";
import { M4_MAX, type Replay, startReplay } from "../../test/bed/replay.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { type Bench, createBench } from "../../test/replicas/bench.ts";
import { type Governed, startGoverned } from "../../test/replicas/governed.ts";
import { createHostReader } from "../host/reader.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
const LEVEL = "kern.memorystatus_vm_pressure_level";
const MIB = 2 ** 20;

function onMac(bench: Bench, mac: Replay): Promise<Governed> {
  return startGoverned(bench.startAgent, createHostReader("darwin", createRunCommand(mac.path)));
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
  const first = await onMac(bench, mac);
  await bench.createReplica("low-0-a", small("low"));
  await bench.createReplica("kept-0-a", small("batch", true));
  await bench.untilPhase("low-0-a", "Ready");
  const kept = await bench.untilPhase("kept-0-a", "Ready");

  await mac.setKey(LEVEL, "4");
  const evicted = await bench.untilPhase("low-0-a", "Evicted");
  expect(evicted.status).toMatchObject({ reason: "EvictedForMemory" });
  expect(evicted.status?.message).toMatch(
    /the OS reports critical memory pressure.*starts again when memory has recovered/,
  );
  expect(evicted.status?.pid).toBeUndefined();
  const slice = await bench.slice("low-0-a");
  expect(slice?.endpoints?.every(({ conditions }) => conditions?.ready === false)).toBe(true);
  await bench.createReplica("late-0-a", small("high"));
  const held = await bench.untilPhase("late-0-a", "Waiting");
  expect(held.status).toMatchObject({ reason: "MemoryPressure" });
  expect(first.watch.assessment()).toMatchObject({ level: "Critical" });

  await first.end();
  const second = await onMac(bench, mac);
  await vi.waitFor(() => expect(second.watch.assessment()?.level).toBe("Critical"), { timeout: 60_000 });
  expect((await bench.replica("low-0-a"))?.status?.phase).toBe("Evicted");
  expect((await bench.replica("kept-0-a"))?.status?.pid).toBe(kept.status?.pid);

  await mac.setKey(LEVEL, "1");
  const late = await bench.untilPhase("late-0-a", "Ready");
  const back = await bench.untilPhase("low-0-a", "Ready");
  // The higher priority first, and the next only when that was ready.
  // The start time of a process differs from the agent's clock by up to a second.
  const at = (iso: string | undefined): number => Date.parse(iso ?? "");
  expect(at(back.status?.startedAt) + 1_000).toBeGreaterThanOrEqual(at(late.status?.readyAt));
  await second.end();
});

/** Free, purgeable and file-backed pages are what a Mac can give. */
async function setAvailable(mac: Replay, mebibytes: number): Promise<void> {
  await mac.setKey("vm.page_free_count", String((mebibytes * MIB) / 16_384));
  await mac.setKey("vm.page_purgeable_count", "0");
  await mac.setKey("vm.page_pageable_external_count", "0");
}

it("waits for memory that other programs hold, and starts at the next reading that shows it free, without the API server's help", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  await using mac = await startReplay(M4_MAX);
  await setAvailable(mac, 3_000);
  const governed = await onMac(bench, mac);
  await bench.createReplica("large-0-c", (spec) => {
    small("normal")(spec);
    Object.assign(spec.memory, { claimBytes: 4_000 * MIB });
  });
  const waiting = await bench.untilPhase("large-0-c", "Waiting");
  expect(waiting.status).toMatchObject({ reason: "InsufficientMemory" });
  expect(waiting.status?.message).toMatch(/3000 MiB|2\.9 GiB/);
  await setAvailable(mac, 5_000);
  await bench.untilPhase("large-0-c", "Ready");
  await governed.end();
});

const GOVERNED = fileURLToPath(new URL("../../test/replicas/governed-process.ts", import.meta.url));
const HOG = fileURLToPath(new URL("../../test/bed/memory-hog.ts", import.meta.url));

/** The first line that a child says. */
async function lineOf(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new Error("the child has no output");
  const lines = createInterface({ input: child.stdout });
  const [line] = (await once(lines, "line")) as [string];
  lines.close();
  return line;
}

function startNode(script: string, ...args: readonly string[]): ChildProcess {
  return spawn(process.execPath, [script, ...args], { stdio: ["pipe", "pipe", "inherit"] });
}

it("evicts for a real memory hog on Linux, one engine at a time, and restores all once it has gone", async (context) => {
  await using group = createMemoryGroup(1_536 * MIB) ?? {
    folder: undefined,
    [Symbol.asyncDispose]: async () => {},
  };
  if (group.folder === undefined) return context.skip("no memory cgroup can be made here");
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  const agent = startNode(GOVERNED, JSON.stringify(bench.place), group.folder);
  expect(await lineOf(agent)).toBe("watching");
  await bench.createReplica("low-0-b", small("low"));
  await bench.createReplica("high-0-b", small("high", true));
  await bench.untilPhase("low-0-b", "Ready");
  const high = await bench.untilPhase("high-0-b", "Ready");

  const hog = startNode(HOG);
  group.add(hog.pid ?? 0);
  hog.stdin?.write("1\n");
  await lineOf(hog);
  const { availableBytes, limitBytes } = availableTo(hog.pid ?? 0);
  hog.stdin?.write(`${Math.floor((availableBytes - 0.04 * limitBytes) / MIB)}\n`);
  const evicted = await bench.untilPhase("low-0-b", "Evicted");
  expect(evicted.status?.message).toMatch(/memory is critical/);
  expect((await bench.replica("high-0-b"))?.status).toMatchObject({ phase: "Ready", pid: high.status?.pid });

  hog.stdin?.end();
  await once(hog, "exit");
  const back = await bench.untilPhase("low-0-b", "Ready");
  expect(back.status?.restarts).toBe(0);
  expect((await bench.replica("high-0-b"))?.status?.pid).toBe(high.status?.pid);
  // The bench takes its engines down with an agent of its own.
  agent.kill("SIGKILL");
  await once(agent, "exit");
});
