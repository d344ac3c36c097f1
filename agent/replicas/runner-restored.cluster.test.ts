/** An etcd that was put back to older data, as after a disaster: what the list says counts, whatever was known before. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { controlPlaneLayoutOf } from "../../local/control-plane/state/layout.ts";
import { startCluster } from "../../test/cluster/cluster.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { createBench } from "../../test/replicas/bench.ts";

const it = findLlamaServer() === undefined ? test.skip : test;

it("an engine that was drained after the backup serves again once it is listed", async () => {
  const dir = mkdtempSync(join(tmpdir(), "metalbridge-restored-"));
  const data = controlPlaneLayoutOf(dir).etcdData;
  const copy = `${dir}-copy`;
  const begin = () => startCluster({ dir });
  let cluster = await begin();
  try {
    await using bench = await createBench(cluster.kubeconfig, "default");
    const agent = await bench.startAgent();
    await bench.createReplica("chat-0-ra");
    const { status } = await bench.untilPhase("chat-0-ra", "Ready");
    await cluster[Symbol.asyncDispose]();
    cpSync(data, copy, { recursive: true });

    cluster = await begin();
    agent.relist();
    await bench.patchSpec("chat-0-ra", { drain: { reason: "HostDrain" } });
    const { metadata } = await bench.untilPhase("chat-0-ra", "Stopped");
    await cluster[Symbol.asyncDispose]();
    rmSync(data, { recursive: true });
    cpSync(copy, data, { recursive: true });

    cluster = await begin();
    const old = await bench.replica("chat-0-ra");
    expect(Number(old?.metadata.resourceVersion)).toBeLessThan(Number(metadata.resourceVersion));
    expect(old?.spec.drain).toBeUndefined();
    agent.relist();
    // The status in the backup says Ready too, for a process that has exited since.
    await bench.untilReplica("chat-0-ra", (found) => {
      const [engine] = agent.runner.snapshot();
      expect(engine).toMatchObject({ phase: "Ready", pid: expect.any(Number) });
      expect(engine?.pid).not.toBe(status?.pid);
      expect(found?.status).toMatchObject({ phase: "Ready", pid: engine?.pid });
    });
    const slice = await bench.slice("chat-0-ra");
    expect(slice?.endpoints).toMatchObject([{ addresses: [bench.address], conditions: { ready: true } }]);
  } finally {
    await cluster[Symbol.asyncDispose]();
    rmSync(dir, { recursive: true, force: true });
    rmSync(copy, { recursive: true, force: true });
  }
});
