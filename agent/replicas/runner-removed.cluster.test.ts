/**
 * A run directory is removed while agent and engine run: the engine keeps serving, and the next agent adopts
 * it.
 */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { until } from "../../test/bed/until.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { createBench } from "../../test/replicas/bench.ts";

const it = findLlamaServer() === undefined ? test.skip : test;

it("recreates the run directory of a serving engine, with its record, and the next agent adopts the engine", async () => {
  await using namespace = await sharedCluster().namespace();
  await using bench = await createBench(sharedCluster().kubeconfig, namespace.name);
  const agent = await bench.startAgent();
  const { metadata } = await bench.createReplica("chat-0-rm");
  const { status } = await bench.untilPhase("chat-0-rm", "Ready");
  const dir = join(bench.stateDir, "engines", metadata.uid ?? "");
  await until(() => expect(recordIn(dir)).toMatchObject({ contextPerSlot: expect.any(Number) }));
  const record = recordIn(dir);

  rmSync(dir, { recursive: true });
  await vi.waitFor(
    () => {
      for (const name of ["session", "pid", "engine.json", "history.json"])
        expect(existsSync(join(dir, name))).toBe(true);
    },
    { timeout: 60_000, interval: 20 },
  );
  expect(recordIn(dir)).toEqual(record);
  await agent.end();

  const next = await bench.startAgent();
  await vi.waitFor(
    () => expect(next.runner.snapshot()[0]).toMatchObject({ phase: "Ready", pid: status?.pid }),
    { timeout: 60_000 },
  );
  expect((await bench.replica("chat-0-rm"))?.status).toMatchObject({ phase: "Ready", restarts: 0 });
  const slice = await bench.slice("chat-0-rm");
  expect(slice?.endpoints).toMatchObject([{ conditions: { ready: true } }]);
});

function recordIn(dir: string): unknown {
  return JSON.parse(readFileSync(join(dir, "engine.json"), "utf8"));
}
