/**
 * A host whose address changes under load: its engine follows at once, without waiting for answers that
 * cannot reach a client.
 */
import { expect, test } from "vitest";
import { openNetwork, whyNoNetwork } from "../../test/bed/network.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { withBench } from "../../test/replicas/with-bench.ts";

const it = test.skipIf(findLlamaServer() === undefined);

test.skipIf(findLlamaServer() === undefined || whyNoNetwork() !== undefined)(
  "an engine on an address that is gone serves on the new one within seconds, whatever it was working on",
  withBench(async (bench) => {
    const network = await openNetwork(["station"]);
    try {
      const up = new Set([network.gateway, bench.address]);
      let current = network.gateway;
      const agent = await bench.startAgent({
        address: () => current,
        isAddressUp: (address) => up.has(address),
      });
      await bench.createReplica("chat-0-ma", (spec) => {
        Object.assign(spec.template.engine, { contextSize: 131_072 });
        Object.assign(spec, { drainSeconds: 600 });
      });
      const { status } = await bench.untilPhase("chat-0-ma", "Ready");
      const answer = await fetch(`http://${network.gateway}:${status?.port}/completion`, {
        method: "POST",
        body: JSON.stringify({ prompt: "a", n_predict: 100_000, ignore_eos: true, stream: true }),
      });
      const cut = answer.text().catch(() => "cut");
      const from = performance.now();
      up.delete(network.gateway);
      current = bench.address;
      agent.runner.enqueueAll();
      await bench.untilAnnounced("chat-0-ma", false);
      const outMs = performance.now() - from;
      await bench.untilSlice("chat-0-ma", (slice) =>
        expect(slice?.endpoints).toMatchObject([{ addresses: [bench.address], conditions: { ready: true } }]),
      );
      const backMs = performance.now() - from;
      process.stdout.write(`withdrawn after ${Math.round(outMs)} ms, back after ${Math.round(backMs)} ms\n`);
      expect(await cut).not.toContain('"stop":true');
      const again = await bench.untilPhase("chat-0-ma", "Ready");
      expect(again.status?.pid).not.toBe(status?.pid);
      expect(again.status).toMatchObject({ restarts: 0 });
    } finally {
      await network[Symbol.asyncDispose]();
    }
  }),
);

it(
  "an address that is away for a moment costs no restart",
  withBench(async (bench) => {
    const up = new Set([bench.address, "192.0.2.20"]);
    let current = bench.address;
    const agent = await bench.startAgent({
      address: () => current,
      isAddressUp: (address) => up.has(address),
      // A moment for the engine, however slow the test's own looks are.
      timings: { movedMs: 60_000, cutOffMs: 60_000 },
    });
    await bench.createReplica("chat-0-mb");
    const before = await bench.untilPhase("chat-0-mb", "Ready");
    up.delete(bench.address);
    current = "192.0.2.20";
    agent.runner.enqueueAll();
    expect((await bench.untilPhase("chat-0-mb", "Waiting")).status?.reason).toBe("HostAddressMissing");
    await bench.untilAnnounced("chat-0-mb", false);
    up.add(bench.address);
    current = bench.address;
    agent.runner.enqueueAll();
    await bench.untilAnnounced("chat-0-mb", true);
    expect((await bench.untilPhase("chat-0-mb", "Ready")).status).toMatchObject({
      pid: before.status?.pid,
      restarts: 0,
    });
  }),
);
