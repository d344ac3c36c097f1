/** Moves without a lost request, on the whole system: a rolling update of three replicas, and the drain of a host, under load. */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { installRelease } from "../../scripts/bench/release.ts";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { canRunNodeNetwork, type NodeNetwork, startNodeNetwork } from "../cluster/node-network.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { livingEngines } from "../system/engines.ts";
import { type Farm, startFarm } from "../system/farm.ts";
import { type FurtherAgent, startFurtherAgent } from "../system/further-agent.ts";
import { allKinds, lostOf, startClients } from "../system/load/clients.ts";
import { NAMESPACE, type Services, servicesOf } from "./services.ts";

const can = canRunNodeNetwork();
const why = can.ok ? "" : ` (skipped: ${can.why})`;
const MINUTE = 60_000;

describe.skipIf(!can.ok)(`moves under load${why}`, () => {
  let cluster: PrivateCluster;
  let network: NodeNetwork;
  let farm: Farm;
  let services: Services;
  const others: FurtherAgent[] = [];

  beforeAll(async () => {
    cluster = await startCluster({ controllerManager: true });
    network = await startNodeNetwork(cluster);
    const address = network.hostAddress;
    const agentArgs = ["--port-range", "23100-23119"];
    farm = await startFarm({ kubeconfig: cluster.kubeconfig, address, hostName: "mac-1", agentArgs });
    for (const index of [2, 3]) {
      const portRange = `${23_100 + index * 20}-${23_119 + index * 20}`;
      others.push(startFurtherAgent(farm, { hostName: `mac-${index}`, address, portRange }));
    }
    services = servicesOf(farm, network);
    mkdirSync(farm.modelsDir, { recursive: true });
    await writeTinyGguf(path.join(farm.modelsDir, "chat.gguf"));
    await vi.waitFor(
      async () => {
        const names = await farm.kubectl(["get", "mbhost", "-o", "jsonpath={.items[*].metadata.name}"]);
        expect(names.split(" ")).toHaveLength(3);
      },
      { timeout: MINUTE, interval: 200 },
    );
    const placement = { spread: "Required" };
    const rollout = { drainSeconds: 30 };
    await services.applyService("chat", "chat.gguf", { replicas: 3, parallelSlots: 2, placement, rollout });
    await services.untilReady("chat");
    await services.chat("chat", { max_tokens: 2 });
  }, 3 * MINUTE);

  afterAll(async () => {
    await Promise.all(others.map((other) => other[Symbol.asyncDispose]()));
    await farm?.[Symbol.asyncDispose]();
    await network?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  }, MINUTE);

  /** Clients of every kind ask all the time; what they lost. */
  async function underLoad(move: () => Promise<void>): Promise<{ asked: number; lost: readonly string[] }> {
    const url = `http://${await services.clusterIp("chat")}:8080`;
    await using clients = startClients(network.namespace, { url, clients: allKinds() });
    await clients.untilEachAsked(1);
    await move();
    await clients.untilEachAsked(1);
    const asked = await clients.stop();
    return { asked: asked.length, lost: lostOf(asked) };
  }

  const replicas = async () => {
    const { items } = JSON.parse(await farm.kubectl(["get", "irep", "-n", NAMESPACE, "-o", "json"]));
    return items as {
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
        await farm.kubectl(["patch", "isvc/chat", "-n", NAMESPACE, "--type=merge", "-p", change]);
        await vi.waitFor(
          async () => {
            const contexts = (await replicas()).map(({ spec }) => spec.template.engine.contextSize);
            expect(contexts).toEqual([512, 512, 512]);
          },
          { timeout: 2 * MINUTE, interval: 200 },
        );
        await services.untilReady("chat");
      });
      expect(lost).toEqual([]);
      expect(asked).toBeGreaterThan(20);
      expect(new Set((await replicas()).map(({ spec }) => spec.template.hostName)).size).toBe(3);
    },
    4 * MINUTE,
  );

  it(
    "an upgrade of the agents of all hosts fails no request and keeps every engine",
    async () => {
      const next = "0.1.0-next";
      const program = await installRelease(path.join(farm.dir, "release"), next);
      const engines = () =>
        [farm, ...others].flatMap(({ stateDir }) => [...livingEngines(stateDir).values()]);
      const before = engines();
      expect(before).toHaveLength(3);
      const { asked, lost } = await underLoad(async () => {
        for (const other of others) {
          await other.part().kill("SIGTERM");
          other.restart(program);
        }
        await farm.agent().kill("SIGTERM");
        farm.restartAgent([], undefined, program);
        const versions = ["get", "mbhost", "-o", "jsonpath={.items[*].status.info.agentVersion}"];
        await vi.waitFor(
          async () => expect((await farm.kubectl(versions)).split(" ")).toEqual(Array(3).fill(next)),
          { timeout: MINUTE, interval: 100 },
        );
        await services.untilReady("chat");
      });
      expect(lost).toEqual([]);
      expect(asked).toBeGreaterThan(10);
      expect(engines()).toEqual(before);
    },
    2 * MINUTE,
  );

  it(
    "the drain of a host moves its replica and fails no request",
    async () => {
      const change = JSON.stringify({ spec: { placement: { spread: "Preferred" } } });
      await farm.kubectl(["patch", "isvc/chat", "-n", NAMESPACE, "--type=merge", "-p", change]);
      const before = await replicas();
      const { asked, lost } = await underLoad(async () => {
        await farm.kubectl(["patch", "mbhost/mac-2", "--type=merge", "-p", '{"spec":{"drain":true}}']);
        await farm.kubectl(["wait", "mbhost/mac-2", "--for=condition=Drained", "--timeout=90s"], {
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
