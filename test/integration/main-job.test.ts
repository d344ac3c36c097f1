/** The main job as users have it: both parts as processes, the real engine, traffic through a ClusterIP and kube-proxy. */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { canRunNodeNetwork, type NodeNetwork, startNodeNetwork } from "../cluster/node-network.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { isAlive, livingEngines } from "../system/engines.ts";
import { type Farm, startFarm } from "../system/farm.ts";
import { NAMESPACE, question, type Services, servicesOf } from "./services.ts";

const can = canRunNodeNetwork();
const why = can.ok ? "" : ` (skipped: ${can.why})`;
const MINUTE = 60_000;

describe.skipIf(!can.ok)(`the main job${why}`, () => {
  let cluster: PrivateCluster;
  let network: NodeNetwork;
  let farm: Farm;
  let services: Services;

  beforeAll(async () => {
    cluster = await startCluster({ controllerManager: true });
    network = await startNodeNetwork(cluster);
    farm = await startFarm({ kubeconfig: cluster.kubeconfig, address: network.hostAddress });
    services = servicesOf(farm, network);
    mkdirSync(farm.modelsDir, { recursive: true });
    await writeTinyGguf(path.join(farm.modelsDir, "chat.gguf"));
    await writeTinyGguf(path.join(farm.modelsDir, "endless.gguf"), {
      endless: true,
      layers: 8,
      embeddingSize: 256,
    });
    await writeTinyGguf(path.join(farm.modelsDir, "embed.gguf"), { embedding: true });
  }, 2 * MINUTE);

  afterAll(async () => {
    await farm?.[Symbol.asyncDispose]();
    await network?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  }, MINUTE);

  it("serves what was applied through the cluster's Service", async () => {
    await services.applyService("chat", "chat.gguf", {});
    await services.untilReady("chat");
    const answer = await services.chat("chat", { max_tokens: 16 });
    expect(answer.choices[0].message.content).not.toBe("");
    expect(answer.usage.completion_tokens).toBeGreaterThan(0);
  });

  it("streams an answer token by token", async () => {
    const url = `http://${await services.clusterIp("chat")}:8080/v1/chat/completions`;
    const { stdout } = await network.curlInside([
      "-N",
      "-m",
      "20",
      url,
      "-d",
      question({ max_tokens: 12, stream: true }),
    ]);
    const events = stdout.split("\n").filter((line) => line.startsWith("data: "));
    expect(events.length).toBeGreaterThan(3);
    expect(events.at(-1)).toBe("data: [DONE]");
  });

  it("serves embeddings in a service of that mode", async () => {
    await services.applyService("embed", "embed.gguf", { mode: "embedding" });
    await services.untilReady("embed");
    const answer = await services.post("embed", "/v1/embeddings", JSON.stringify({ input: "the sea" }));
    expect(answer.data[0].embedding).toHaveLength(64);
    await farm.kubectl(["delete", "isvc/embed", "-n", NAMESPACE, "--timeout=60s"]);
  });

  it("tells the story in kubectl get, events and conditions", async () => {
    const table = await farm.kubectl(["get", "isvc,irep,mdl,mbhost", "-A"]);
    expect(table).toMatch(/inferenceservice\S*\/chat\s+Ready/);
    expect(table).toContain(farm.hostName);
    const replica = await services.replicaOf("chat");
    expect(replica.status.phase).toBe("Ready");
    const events = await farm.kubectl([
      "get",
      "events",
      "-n",
      NAMESPACE,
      "-o",
      "jsonpath={.items[*].reason}",
    ]);
    expect(events.split(" ").length).toBeGreaterThan(2);
  });

  it("withdraws a killed engine at once and serves again", async () => {
    const before = (await services.replicaOf("chat")).status.pid;
    process.kill(before, "SIGKILL");
    await vi.waitFor(async () => expect(await services.sliceIsReady("chat")).toBe(false), {
      timeout: 5_000,
      interval: 5,
    });
    await vi.waitFor(
      async () => {
        const { status } = await services.replicaOf("chat");
        expect(status).toMatchObject({ phase: "Ready", restarts: 1 });
        expect(status.pid).not.toBe(before);
        expect(status.lastExit).toMatchObject({ signal: "SIGKILL", killedByUs: false });
      },
      { timeout: MINUTE, interval: 100 },
    );
    await vi.waitFor(
      async () => expect((await services.chat("chat", { max_tokens: 4 })).choices).toHaveLength(1),
      {
        timeout: 15_000,
        interval: 250,
      },
    );
  });

  it(
    "loses no request and no engine when the agent is killed in the middle of a streamed answer",
    async () => {
      await services.applyService("stream", "endless.gguf", { contextSize: 4096 });
      await services.untilReady("stream");
      // kube-proxy follows within its sync period; only an answer says that it has.
      await services.chat("stream", { max_tokens: 2 });
      const { pid } = (await services.replicaOf("stream")).status;
      const url = `http://${await services.clusterIp("stream")}:8080/v1/chat/completions`;
      let killed: Promise<void> | undefined;
      const answer = network.curlInside(
        ["-N", "-m", "90", url, "-d", question({ max_tokens: 1500, stream: true })],
        {
          timeoutMs: 100_000,
          onStdout: () => {
            killed ??= farm.agent().kill("SIGKILL");
          },
        },
      );
      await vi.waitFor(() => expect(killed).toBeDefined(), { timeout: 20_000, interval: 10 });
      await killed;
      farm.restartAgent();
      const { code, stdout } = await answer;
      expect(code).toBe(0);
      const events = stdout.split("\n").filter((line) => line.startsWith("data: "));
      expect(events.at(-1)).toBe("data: [DONE]");
      expect(events.length).toBeGreaterThan(1_000);
      await services.untilReady("stream");
      expect((await services.replicaOf("stream")).status).toMatchObject({ pid, restarts: 0 });
      expect(isAlive(pid)).toBe(true);
      await farm.kubectl(["delete", "isvc/stream", "-n", NAMESPACE, "--timeout=60s"]);
    },
    3 * MINUTE,
  );

  it(
    "follows kubectl scale to zero and back",
    async () => {
      await farm.kubectl(["scale", "isvc/chat", "-n", NAMESPACE, "--replicas=0"]);
      await vi.waitFor(() => expect(livingEngines(farm.stateDir).size).toBe(0), {
        timeout: MINUTE,
        interval: 100,
      });
      await vi.waitFor(async () => expect((await services.serviceStatus("chat")).phase).toBe("Stopped"), {
        timeout: 10_000,
        interval: 100,
      });
      await farm.kubectl(["scale", "isvc/chat", "-n", NAMESPACE, "--replicas=1"]);
      await services.untilReady("chat");
      expect((await services.chat("chat", { max_tokens: 4 })).choices).toHaveLength(1);
    },
    2 * MINUTE,
  );

  it(
    "runs a changed service beside the old one, then instead of it",
    async () => {
      const before = await services.replicaOf("chat");
      await farm.kubectl([
        "patch",
        "isvc/chat",
        "-n",
        NAMESPACE,
        "--type=merge",
        "-p",
        '{"spec":{"contextSize":512}}',
      ]);
      await vi.waitFor(
        async () => {
          const replica = await services.replicaOf("chat");
          expect(replica.metadata.name).not.toBe(before.metadata.name);
          expect(replica.status.phase).toBe("Ready");
          expect(livingEngines(farm.stateDir).size).toBe(1);
        },
        { timeout: MINUTE, interval: 200 },
      );
      expect((await services.chat("chat", { max_tokens: 4 })).choices).toHaveLength(1);
    },
    2 * MINUTE,
  );

  it(
    "leaves nothing behind after kubectl delete",
    async () => {
      await farm.kubectl(["delete", "isvc/chat", "mdl/chat", "-n", NAMESPACE, "--timeout=60s"]);
      expect(livingEngines(farm.stateDir).size).toBe(0);
      const left = await farm.kubectl([
        "get",
        "irep,svc,endpointslices,controllerrevisions",
        "-n",
        NAMESPACE,
        "-o",
        "name",
      ]);
      expect(left.split("\n").filter((name) => /chat|stream|embed/.test(name))).toEqual([]);
    },
    2 * MINUTE,
  );
});
