import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { bundleInto } from "../../scripts/bundle/bundle.ts";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { livingEngines } from "../bed/engines.ts";
import { allKinds, lostOf, startClients } from "../bed/load/clients.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { installRelease } from "../bed/release.ts";
import { NAMESPACE } from "../bed/services.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const MINUTE = 60_000;

describeUnless(whyNoNodeNetwork(), "moves under load", () => {
  let on: System;

  beforeAll(async () => {
    on = await startSystem({
      agents: ["mac-1", "mac-2", "mac-3"].map((hostName) => ({ hostName })),
    });
    await writeTinyGguf(path.join(on.farm.modelsDir, "chat.gguf"));
    await until(
      async () => {
        const names = await on.farm.kubectl(["get", "mbhost", "-o", "jsonpath={.items[*].metadata.name}"]);
        expect(names.split(" ")).toHaveLength(3);
      },
      { everyMs: 200 },
    );
    const placement = { spread: "Required" };
    const rollout = { drainSeconds: 30 };
    await on.services.applyService("chat", "chat.gguf", {
      replicas: 3,
      parallelSlots: 2,
      placement,
      rollout,
    });
    await on.services.untilReady("chat");
  });

  afterAll(() => on?.[Symbol.asyncDispose]());

  /** Clients of every kind ask all the time; what they lost. */
  async function underLoad(move: () => Promise<void>): Promise<{ asked: number; lost: readonly string[] }> {
    const url = `http://${await on.services.clusterIp("chat")}:8080`;
    await using clients = startClients(on.network.namespace, { url, clients: allKinds() });
    await clients.untilEachAsked(1);
    await move();
    await clients.untilEachAsked(1);
    const asked = await clients.stop();
    return { asked: asked.length, lost: lostOf(asked) };
  }

  const replicas = async () => {
    return (await on.farm.objects.list(INFERENCE_REPLICAS)) as {
      metadata: { uid: string };
      spec: { template: { hostName: string; engine: { contextSize: number } } };
    }[];
  };

  it(
    "a rolling update of three replicas, one on each host, fails no request",
    async () => {
      const { asked, lost } = await underLoad(async () => {
        const change = JSON.stringify({ spec: { contextSize: 512 } });
        // On hosts of their own a successor has to take its predecessor's host.
        await on.farm.kubectl(["patch", "isvc/chat", "-n", NAMESPACE, "--type=merge", "-p", change]);
        await until(async () => {
          const contexts = (await replicas()).map(({ spec }) => spec.template.engine.contextSize);
          expect(contexts).toEqual([512, 512, 512]);
        });
        await on.services.untilReady("chat");
      });
      expect(lost).toEqual([]);
      expect(asked).toBeGreaterThan(20);
      expect(new Set((await replicas()).map(({ spec }) => spec.template.hostName)).size).toBe(3);
    },
    4 * MINUTE,
  );

  it("an upgrade of the agents of all hosts fails no request and keeps every engine", async () => {
    const next = "0.1.0-next";
    const bundle = path.join(on.farm.dir, "bundle");
    await bundleInto(bundle);
    const { program } = installRelease(path.join(on.farm.dir, "release"), next, bundle);
    const engines = () => on.farm.agents.flatMap(({ stateDir }) => [...livingEngines(stateDir).values()]);
    const before = engines();
    expect(before).toHaveLength(3);
    const { asked, lost } = await underLoad(async () => {
      for (const agent of on.farm.agents.toReversed()) {
        await agent.part().kill("SIGTERM");
        agent.restart({ program });
      }
      const versions = ["get", "mbhost", "-o", "jsonpath={.items[*].status.info.agentVersion}"];
      await until(async () =>
        expect((await on.farm.kubectl(versions)).split(" ")).toEqual(Array(3).fill(next)),
      );
      await on.services.untilReady("chat");
    });
    expect(lost).toEqual([]);
    expect(asked).toBeGreaterThan(10);
    expect(engines()).toEqual(before);
  });

  it(
    "the drain of a host moves its replica and fails no request",
    async () => {
      const change = JSON.stringify({ spec: { placement: { spread: "Preferred" } } });
      await on.farm.kubectl(["patch", "isvc/chat", "-n", NAMESPACE, "--type=merge", "-p", change]);
      const before = await replicas();
      const { asked, lost } = await underLoad(async () => {
        await on.farm.kubectl(["patch", "mbhost/mac-2", "--type=merge", "-p", '{"spec":{"drain":true}}']);
        await on.farm.kubectl(["wait", "mbhost/mac-2", "--for=condition=Drained", "--timeout=90s"], {
          timeoutMs: 100_000,
        });
      });
      expect(lost).toEqual([]);
      expect(asked).toBeGreaterThan(5);
      const after = await replicas();
      expect(after.map(({ spec }) => spec.template.hostName)).not.toContain("mac-2");
      expect(after).toHaveLength(3);
      // Only what was on the drained host has moved.
      const stayed = before.filter(({ spec }) => spec.template.hostName !== "mac-2");
      const uids = after.map(({ metadata }) => metadata.uid);
      for (const { metadata } of stayed) expect(uids).toContain(metadata.uid);
    },
    4 * MINUTE,
  );
});
