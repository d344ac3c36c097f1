import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { livingEngines } from "../bed/engines.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { NAMESPACE, question } from "../bed/services.ts";
import { isAlive } from "../bed/signal.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { watchSlices } from "../bed/watch-slices.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

describeUnless(whyNoNodeNetwork(), "the main job", () => {
  let on: System;

  beforeAll(async () => {
    on = await startSystem();
    await writeTinyGguf(path.join(on.farm.modelsDir, "chat.gguf"));
    await writeTinyGguf(path.join(on.farm.modelsDir, "endless.gguf"), {
      endless: true,
      layers: 8,
      embeddingSize: 256,
    });
    await writeTinyGguf(path.join(on.farm.modelsDir, "embed.gguf"), { embedding: true });
  });

  afterAll(() => on?.[Symbol.asyncDispose]());

  it("serves what was applied through the cluster's Service", async () => {
    await on.services.applyService("chat", "chat.gguf", {});
    await on.services.untilReady("chat");
    const answer = await on.services.chat("chat", { max_tokens: 16 });
    expect(answer.choices[0].message.content).not.toBe("");
    expect(answer.usage.completion_tokens).toBeGreaterThan(0);
  });

  it("streams an answer token by token", async () => {
    const url = `http://${await on.services.clusterIp("chat")}:8080/v1/chat/completions`;
    const { stdout } = await on.network.curlInside([
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
    await on.services.applyService("embed", "embed.gguf", { mode: "embedding" });
    await on.services.untilReady("embed");
    const answer = await on.services.post("embed", "/v1/embeddings", JSON.stringify({ input: "the sea" }));
    expect(answer.data[0].embedding).toHaveLength(64);
    await on.farm.kubectl(["delete", "isvc/embed", "-n", NAMESPACE, "--timeout=60s"]);
  });

  it("shows the whole course in kubectl get, events and conditions", async () => {
    const table = await on.farm.kubectl(["get", "isvc,irep,mdl,mbhost", "-A"]);
    expect(table).toMatch(/inferenceservice\S*\/chat\s+Ready/);
    expect(table).toContain(on.farm.hostName);
    const replica = await on.services.replicaOf("chat");
    expect(replica.status.phase).toBe("Ready");
    const events = await on.farm.kubectl([
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
    const before = (await on.services.replicaOf("chat")).status.pid;
    using slices = await watchSlices(on.farm.kubeconfig, NAMESPACE, "chat");
    const killedAt = performance.now();
    process.kill(before, "SIGKILL");
    await until(() => expect(slices.withdrawals).toHaveLength(1), { everyMs: 10 });
    expect((slices.withdrawals[0] ?? 0) - killedAt).toBeLessThan(9_000);
    await until(async () => {
      const { status } = await on.services.replicaOf("chat");
      expect(status).toMatchObject({ phase: "Ready", restarts: 1 });
      expect(status.pid).not.toBe(before);
      expect(status.lastExit).toMatchObject({ signal: "SIGKILL", killedByUs: false });
    });
    await until(
      async () => expect((await on.services.chat("chat", { max_tokens: 4 })).choices).toHaveLength(1),
      { everyMs: 250 },
    );
  });

  it("loses no request and no engine when the agent is killed in the middle of a streamed answer", async () => {
    await on.services.applyService("stream", "endless.gguf", { contextSize: 4096 });
    await on.services.untilReady("stream");
    // kube-proxy follows within its sync period; only an answer says that it has.
    await on.services.chat("stream", { max_tokens: 2 });
    const { pid } = (await on.services.replicaOf("stream")).status;
    const url = `http://${await on.services.clusterIp("stream")}:8080/v1/chat/completions`;
    let killed: Promise<void> | undefined;
    const answer = on.network.curlInside(
      ["-N", "-m", "90", url, "-d", question({ max_tokens: 1500, stream: true })],
      {
        timeoutMs: 100_000,
        onStdout: () => {
          killed ??= on.farm.agent().kill("SIGKILL");
        },
      },
    );
    await until(() => expect(killed).toBeDefined(), { everyMs: 10 });
    await killed;
    on.farm.restartAgent();
    const { code, stdout } = await answer;
    expect(code).toBe(0);
    const events = stdout.split("\n").filter((line) => line.startsWith("data: "));
    expect(events.at(-1)).toBe("data: [DONE]");
    expect(events.length).toBeGreaterThan(1_000);
    await on.services.untilReady("stream");
    expect((await on.services.replicaOf("stream")).status).toMatchObject({ pid, restarts: 0 });
    expect(isAlive(pid)).toBe(true);
    await on.farm.kubectl(["delete", "isvc/stream", "-n", NAMESPACE, "--timeout=60s"]);
  });

  it("follows kubectl scale to zero and back", async () => {
    await on.farm.kubectl(["scale", "isvc/chat", "-n", NAMESPACE, "--replicas=0"]);
    await until(() => expect(livingEngines(on.farm.stateDir).size).toBe(0));
    await until(async () => expect((await on.services.serviceStatus("chat")).phase).toBe("Stopped"));
    await on.farm.kubectl(["scale", "isvc/chat", "-n", NAMESPACE, "--replicas=1"]);
    await on.services.untilReady("chat");
    expect((await on.services.chat("chat", { max_tokens: 4 })).choices).toHaveLength(1);
  });

  it("runs a changed service beside the old one, then instead of it", async () => {
    const before = await on.services.replicaOf("chat");
    await on.farm.kubectl([
      "patch",
      "isvc/chat",
      "-n",
      NAMESPACE,
      "--type=merge",
      "-p",
      '{"spec":{"contextSize":512}}',
    ]);
    await until(async () => {
      const replica = await on.services.replicaOf("chat");
      expect(replica.metadata.name).not.toBe(before.metadata.name);
      expect(replica.status.phase).toBe("Ready");
      expect(livingEngines(on.farm.stateDir).size).toBe(1);
    });
    expect((await on.services.chat("chat", { max_tokens: 4 })).choices).toHaveLength(1);
  });

  it("leaves nothing behind after kubectl delete", async () => {
    await on.farm.kubectl(["delete", "isvc/chat", "mdl/chat", "-n", NAMESPACE, "--timeout=60s"]);
    expect(livingEngines(on.farm.stateDir).size).toBe(0);
    const left = async (...selector: readonly string[]) => {
      const kinds = "irep,svc,endpointslices,controllerrevisions";
      const names = await on.farm.kubectl(["get", kinds, "-n", NAMESPACE, "-o", "name", ...selector]);
      return names.split("\n").filter((name) => /chat|stream|embed/.test(name));
    };
    const ofOurs = "endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io";
    expect(await left("-l", ofOurs)).toEqual([]);
    // Kubernetes has a slice of its own for a Service with a selector, which its garbage collector takes.
    await until(async () => expect(await left()).toEqual([]));
  });
});
