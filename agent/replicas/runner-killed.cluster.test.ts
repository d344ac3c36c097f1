/** An agent that is killed at any moment, and an API server that goes away: never two engines, never a forgotten one. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { sharedCluster, startCluster } from "../../test/cluster/cluster.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { createBench } from "../../test/replicas/bench.ts";
import { createEngineDrivers } from "../engines/registry.ts";

const canRun = findLlamaServer() !== undefined && process.platform === "linux";
const it = canRun ? test : test.skip;
const PATIENT = { timeout: 60_000 };

/** Engines started for this state folder and alive now, by the mark in their environment; the shims carry it too. */
function enginesOf(stateDir: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const isMarked = readFileSync(`/proc/${pid}/environ`, "utf8").includes(
          `METALBRIDGE_RUN_DIR=${stateDir}`,
        );
        return (
          isMarked && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("\0--port\0") && !isShim(pid)
        );
      } catch {
        return false;
      }
    });
}

function isShim(pid: number): boolean {
  return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")[1]?.endsWith("/shim") === true;
}

/** Checks on every turn of the event loop: the next step follows within a millisecond. */
async function untilThere(path: string): Promise<void> {
  const until = performance.now() + 60_000;
  while (!existsSync(path)) {
    if (performance.now() > until) throw new Error(`${path} never came`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function startChild(place: object): Promise<ChildProcess> {
  const entry = new URL("../../test/replicas/agent-process.ts", import.meta.url).pathname;
  const child = spawn(process.execPath, [entry, JSON.stringify(place)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout ?? child, "data");
  return child;
}

it("never runs two engines for one replica, wherever between reservation and readiness the agent is killed", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  // Reserved, started, and running; the steps between are those of adoption.test.ts.
  for (const [round, file] of ["engine.json", "session", "log"].entries()) {
    const name = `chat-${round}-k`;
    const child = await startChild(bench.place);
    const { metadata } = await bench.createReplica(name);
    await untilThere(`${bench.stateDir}/engines/${metadata.uid}/${file}`);
    child.kill("SIGKILL");
    await once(child, "exit");
    // A wrapper script that forks looks like a second engine for a moment; a real one would stay.
    await vi.waitFor(() => expect(enginesOf(bench.stateDir).length).toBeLessThanOrEqual(1), PATIENT);
    const left = enginesOf(bench.stateDir);
    const next = await bench.startAgent();
    const ready = await bench.untilPhase(name, "Ready");
    expect(enginesOf(bench.stateDir)).toEqual([ready.status?.pid]);
    if (left.length === 1) expect(ready.status?.restarts).toBe(0);
    await bench.deleteReplica(name);
    await vi.waitFor(() => expect(next.runner.snapshot()).toEqual([]), PATIENT);
    await next.end();
  }
});

it("replaces an engine whose record was lost, and never runs two at once", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  const first = await bench.startAgent();
  const { metadata } = await bench.createReplica("chat-0-l");
  const before = await bench.untilPhase("chat-0-l", "Ready");
  await first.end();
  writeFileSync(`${bench.stateDir}/engines/${metadata.uid}/engine.json`, "{");
  const second = await bench.startAgent();
  // What it was admitted with: made again from the weights, the reservation itself is lost.
  expect(second.runner.claimedBytes()).toBe(before.status?.memory?.claimBytes);
  await bench.untilReplica("chat-0-l", (found) => {
    expect(enginesOf(bench.stateDir).length).toBeLessThanOrEqual(1);
    expect(found?.status).toMatchObject({ phase: "Ready", restarts: 0, port: before.status?.port });
    expect(found?.status?.pid).not.toBe(before.status?.pid);
  });
});

it("does not write the record after the agent has stopped, even if an engine answers late", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  const asked = Promise.withResolvers<void>();
  const late = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<void>();
  const first = await bench.startAgent({
    drivers: (options) =>
      new Map(
        [...createEngineDrivers(options)].map(([runtime, driver]) => [
          runtime,
          {
            ...driver,
            readContextPerSlot: async (target) => {
              asked.resolve();
              await late.promise;
              return driver.readContextPerSlot?.(target).finally(answered.resolve);
            },
          },
        ]),
      ),
  });
  const { metadata } = await bench.createReplica("chat-0-f");
  await asked.promise;
  await first.end();
  const record = `${bench.stateDir}/engines/${metadata.uid}/engine.json`;
  writeFileSync(record, "{");
  late.resolve();
  await answered.promise;
  await new Promise((resolve) => setImmediate(resolve));
  expect(readFileSync(record, "utf8")).toBe("{");
});

it("keeps and restarts engines without the API server, also after its own restart, and then reports once", async () => {
  await using cluster = await startCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  const first = await bench.startAgent();
  await bench.createReplica("chat-0-o");
  const before = await bench.untilPhase("chat-0-o", "Ready");
  await cluster.stopApiServer();

  await first.end();
  const second = await bench.startAgent();
  expect(second.runner.snapshot()).toMatchObject([{ pid: before.status?.pid }]);
  process.kill(before.status?.pid ?? 0, "SIGKILL");
  await vi.waitFor(
    async () => {
      const [seen] = second.runner.snapshot();
      expect(seen).toMatchObject({ restarts: 1 });
      expect(seen?.pid).toBeGreaterThan(0);
      expect((await fetch(`http://${bench.address}:${seen?.port}/health`)).status).toBe(200);
    },
    { timeout: 60_000, interval: 50 },
  );
  const [running] = second.runner.snapshot();
  await cluster.startApiServer();
  second.relist();
  await bench.untilReplica("chat-0-o", (found) =>
    expect(found?.status).toMatchObject({ phase: "Ready", restarts: 1, pid: running?.pid }),
  );
  await bench.untilAnnounced("chat-0-o", true);
});
