/** A whole agent that carries out orders with the real llama-bench. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { BenchmarkOrder, BenchmarkState } from "../../src/api/benchmark.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import { processPorts } from "../../src/supervise/fixtures/run.ts";
import { createSupervisor } from "../../src/supervise/supervisor.ts";
import { must } from "../../test/bed/must.ts";
import { until } from "../../test/bed/until.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { namespacesOf } from "../../test/cluster/namespace.ts";
import { program } from "../../test/fixtures/started-llama-server.ts";
import { writeTinyGguf } from "../../test/fixtures/tiny-gguf.ts";
import { createBench } from "../../test/replicas/bench.ts";
import { findBeside } from "../engines/driver/program.ts";
import { startAgent } from "../fixtures/agent.ts";

const hasBench = await findBeside("llama-bench", program).then(
  () => true,
  () => false,
);
const GIB = 1024 ** 3;

test.skipIf(!hasBench)(
  "an idle host measures the ordered model; an assigned replica ends a benchmark at once, and starts (needs llama-bench)",
  async () => {
    const { kubeconfig, objects } = sharedCluster();
    await using namespace = await namespacesOf(kubeconfig)();
    await using bench = await createBench(kubeconfig, namespace.name);
    const { place, client, modelPath, stateDir } = bench;
    const { hostName } = place;
    const slowPath = join(place.root, "slow.gguf");
    await writeTinyGguf(slowPath, {
      layers: 8,
      embeddingSize: 512,
      feedForwardSize: 2048,
      heads: 8,
      kvHeads: 8,
    });
    await objects.apply({
      apiVersion: "metalbridge.dev/v1alpha1",
      kind: "Host",
      metadata: { name: hostName },
      spec: { addresses: [place.address] },
    });
    onTestFinished(() => objects.remove("", `hosts/${hostName}`));
    const order = async (path: string, change: Partial<BenchmarkOrder> = {}): Promise<void> => {
      const benchmark = { order: { ...orderOf(path), ...change } };
      await objects.patch("", `hosts/${hostName}`, { status: { benchmark } }, "status");
    };
    const untilState = async (key: string, phase: BenchmarkState["phase"]): Promise<BenchmarkState> => {
      const reached = await until(async () => {
        const { status } = must(await client.get(HOSTS, { name: hostName }));
        const state = status?.benchmark?.state;
        if (state?.key === key && [phase, "Failed"].includes(state.phase)) return state;
        throw new Error(`${phase} of ${key}: ${JSON.stringify(state)}`);
      });
      expect(reached).toMatchObject({ phase });
      return reached;
    };
    const leftover = await leaveBenchmark(join(stateDir, "benchmark"));
    const settings = {
      ...{ kubeconfig, hostName, stateDir, keepState: true, addresses: [place.address] },
      modelRoots: [place.root],
      benchmark: { idleMs: 100 },
      portRange: [...place.ports] as [number, number],
    };
    await order(modelPath, { key: "first" });

    const first = await startAgent(settings);
    const done = await untilState("first", "Done");
    expect(isAlive(leftover)).toBe(false);
    expect(done.result).toMatchObject({
      tool: "llama-bench",
      build: expect.stringMatching(/\d/),
      generation: { median: expect.any(Number), samples: [expect.any(Number), expect.any(Number)] },
      generationAt4096: { median: expect.any(Number) },
      prompt512: { median: expect.any(Number) },
      prompt4096: { median: expect.any(Number) },
      loadSeconds: expect.any(Number),
      timeToFirstTokenSeconds: expect.any(Number),
      peakBytes: expect.any(Number),
    });
    await first.stop();

    const second = await startAgent(settings);
    onTestFinished(() => second.stop());
    await until(async () => expect(await second.ask("/readyz")).toBe("200 ok\n"));
    expect(await untilState("first", "Done")).toEqual(done);
    await order(modelPath, { key: "unsupported", runtime: "generic" });
    expect(await untilState("unsupported", "Failed")).toMatchObject({ reason: "BenchmarkNotSupported" });
    await order(slowPath, { key: "slow", plan: { warmups: 0, runs: 20, tokens: 1024 } });
    await untilState("slow", "Running");
    const pid = await until(() => pidOf(join(stateDir, "benchmark")));
    await bench.createReplica("chat", ({ memory }) => {
      memory.claimBytes = GIB / 8;
    });
    const waiting = await untilState("slow", "Waiting");
    expect(waiting).toMatchObject({ reason: "HostBusy", message: expect.stringContaining("chat") });
    await until(() => expect(isAlive(pid)).toBe(false));
    await bench.untilPhase("chat", "Ready");
    // It does not run beside the serving engine, and continues once the host is idle.
    expect(existsSync(join(stateDir, "benchmark", "pid"))).toBe(false);
    await bench.deleteReplica("chat");
    await untilState("slow", "Running");
    const again = await until(() => pidOf(join(stateDir, "benchmark")));
    await second.stop();
    await until(() => expect(isAlive(again)).toBe(false));
  },
);

function orderOf(source: string): BenchmarkOrder {
  return {
    key: "key",
    namespace: "default",
    name: "tiny",
    model: { source, files: [], format: "gguf", refreshPolicy: "IfNotPresent" },
    runtime: "llamacpp",
    deviceClass: "cpu-test-2",
    settings: {},
    plan: { warmups: 1, runs: 2, tokens: 16 },
  };
}

/** Leaves a program in the folder, as an agent that crashed. Returns its pid. */
async function leaveBenchmark(dir: string): Promise<number> {
  const { start } = createSupervisor(processPorts());
  const env = { PATH: process.env.PATH ?? "" };
  const left = await start(dir, { argv: ["sleep", "1000"], env, record: {} }, () => undefined);
  const pid = await until(() => pidOf(dir));
  left.close();
  expect(isAlive(pid)).toBe(true);
  return pid;
}

function pidOf(dir: string): number {
  return Number(readFileSync(join(dir, "pid"), "utf8").split(" ")[0]);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
