/** Moves without a lost request, on the whole system: a rolling update of three replicas, and the drain of a host, under load. */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { readPartsConfig } from "../../cli/control-plane/config.ts";
import { findLlamaServer } from "../../cli/control-plane/llama-server.ts";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { canRunNodeNetwork, type NodeNetwork, startNodeNetwork } from "../cluster/node-network.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { killEngines } from "../system/engines.ts";
import { type Farm, startFarm } from "../system/farm.ts";
import { type Part, startPart } from "../system/part.ts";
import { NAMESPACE, question, type Services, servicesOf } from "./services.ts";

const can = canRunNodeNetwork();
const why = can.ok ? "" : ` (skipped: ${can.why})`;
const MINUTE = 60_000;
const CLIENTS = 3;

describe.skipIf(!can.ok)(`moves under load${why}`, () => {
  let cluster: PrivateCluster;
  let network: NodeNetwork;
  let farm: Farm;
  let services: Services;
  const others: { readonly part: Part; readonly stateDir: string }[] = [];

  beforeAll(async () => {
    cluster = await startCluster({ controllerManager: true });
    network = await startNodeNetwork(cluster);
    const address = network.hostAddress;
    const agentArgs = ["--port-range", "23100-23119"];
    farm = await startFarm({ kubeconfig: cluster.kubeconfig, address, hostName: "mac-1", agentArgs });
    for (const index of [2, 3]) others.push(startAgent(index, address));
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
    await Promise.all(others.map(({ part }) => part.kill("SIGTERM")));
    for (const { stateDir } of others) killEngines(stateDir);
    await farm?.[Symbol.asyncDispose]();
    await network?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  }, MINUTE);

  function startAgent(index: number, address: string): { part: Part; stateDir: string } {
    const stateDir = path.join(farm.dir, `agent-${index}`);
    const engine = findLlamaServer(readPartsConfig());
    const ports = `${23_100 + index * 20}-${23_119 + index * 20}`;
    const args = [
      ...["agent", "--kubeconfig", farm.kubeconfig, "--register"],
      ...["--host-name", `mac-${index}`, "--address", address, "--port-range", ports],
      ...["--state-dir", stateDir, "--model-root", farm.modelsDir],
      ...(engine === undefined ? [] : ["--llama-server", engine]),
    ];
    return { part: startPart(args, path.join(farm.dir, `agent-${index}.log`)), stateDir };
  }

  /** Clients that ask without a pause, each question on a connection of its own, until they are stopped. */
  async function underLoad(move: () => Promise<void>): Promise<{ asked: number; failed: string[] }> {
    const url = `http://${await services.clusterIp("chat")}:8080/v1/chat/completions`;
    const load = { asked: 0, failed: [] as string[] };
    let isOver = false;
    const client = async () => {
      while (!isOver) {
        const args = ["-s", "-m", "30", "-o", "/dev/null", "-w", "%{http_code}", url];
        const { code, stdout, stderr } = await network.curlInside([
          ...args,
          "-d",
          question({ max_tokens: 8 }),
        ]);
        load.asked += 1;
        if (code !== 0 || stdout !== "200") load.failed.push(`${code} ${stdout} ${stderr}`);
      }
    };
    const clients = Array.from({ length: CLIENTS }, client);
    try {
      await move();
    } finally {
      isOver = true;
      await Promise.all(clients);
    }
    return load;
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
      const { asked, failed } = await underLoad(async () => {
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
      expect(failed).toEqual([]);
      expect(asked).toBeGreaterThan(20);
      expect(new Set((await replicas()).map(({ spec }) => spec.template.hostName)).size).toBe(3);
    },
    4 * MINUTE,
  );

  it(
    "the drain of a host moves its replica and fails no request",
    async () => {
      const change = JSON.stringify({ spec: { placement: { spread: "Preferred" } } });
      await farm.kubectl(["patch", "isvc/chat", "-n", NAMESPACE, "--type=merge", "-p", change]);
      const before = await replicas();
      const { asked, failed } = await underLoad(async () => {
        await farm.kubectl(["patch", "mbhost/mac-2", "--type=merge", "-p", '{"spec":{"drain":true}}']);
        await farm.kubectl(["wait", "mbhost/mac-2", "--for=condition=Drained", "--timeout=90s"], {
          timeoutMs: 100_000,
        });
      });
      expect(failed).toEqual([]);
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
