/**
 * A service of four Models, each from a source of its own kind, on a real llama-server: main model, draft, projector and
 * adapter. An adapter that is added or removed replaces the engine by a rollout, because llama-server loads adapters only when
 * it starts.
 */
import { readFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { testAddress } from "../../agent/fixtures/agent.ts";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { listOf } from "../bed/kubectl.ts";
import { model, serviceAnywhere } from "../bed/manifests.ts";
import { NAMESPACE } from "../bed/services.ts";
import { startFleet, type TestFleet } from "../bed/test-fleet.ts";
import { until } from "../bed/until.ts";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { findLlamaServer } from "../fixtures/llama-server.ts";
import { writeTinyGguf, writeTinyLora, writeTinyProjector } from "../fixtures/tiny-gguf.ts";
import { type HubOrigin, startHub } from "./hub-origin.ts";

const address = testAddress();
const base = [
  { name: "tiny", role: "main" },
  { name: "small", role: "draft" },
];

describe.skipIf(findLlamaServer() === undefined)("a service of Models with roles", () => {
  let cluster: PrivateCluster;
  let hub: HubOrigin;
  let farm: TestFleet;

  beforeAll(async () => {
    cluster = await startCluster();
    const at = (name: string) => path.join(cluster.dir, name);
    await writeTinyGguf(at("tiny.gguf"));
    await writeTinyProjector(at("eyes.gguf"));
    await writeTinyLora(at("style.gguf"), 2);
    const file = (name: string) => ({ [name]: readFileSync(at(name)) });
    hub = await startHub({
      "org/tiny": { commit: "c".repeat(40), files: file("tiny.gguf") },
      "org/eyes": { commit: "d".repeat(40), files: file("eyes.gguf") },
      "org/style": { commit: "e".repeat(40), files: file("style.gguf") },
    });
    const config = {
      disk: { reserve: 0 },
      huggingFace: { endpoint: hub.url },
      sources: { allowLoopback: true },
    };
    farm = await startFleet({
      kubeconfig: cluster.kubeconfig,
      address,
      agents: [{ config }],
      controllerArgs: ["--hf-endpoint", hub.url, "--allow-loopback"],
    });
    // Agents read files in their model folders only.
    const onHost = path.join(farm.modelsDir, "small.gguf");
    await writeTinyGguf(onHost, { layers: 1 });
    const models = [
      model("tiny", "hf://org/tiny/tiny.gguf", {}, NAMESPACE),
      model("small", onHost, {}, NAMESPACE),
      model("eyes", "hf://org/eyes/eyes.gguf", {}, NAMESPACE),
      model("style", `${hub.url}/org/style/resolve/${"e".repeat(40)}/style.gguf`, {}, NAMESPACE),
    ];
    await farm.kubectl(["apply", "-f", "-"], listOf(...models));
  });

  afterAll(async () => {
    await farm?.[Symbol.asyncDispose]();
    await hub?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });

  /** Applies the service and returns its replica, once that is Ready and the only one. */
  async function serve(modelRefs: readonly object[]) {
    const spec = { modelRef: undefined, modelRefs, contextSize: 512, rollout: { drainSeconds: 1 } };
    await farm.kubectl(
      ["apply", "--server-side", "-f", "-"],
      listOf(serviceAnywhere("chat", spec, NAMESPACE)),
    );
    return until(async () => {
      const { metadata, status } = await farm.objects.read(INFERENCE_SERVICES, "chat");
      expect(status, farm.agent().log().slice(-2_000)).toMatchObject({
        observedGeneration: metadata.generation,
      });
      const items = await farm.objects.list(INFERENCE_REPLICAS, "metalbridge.dev/service=chat");
      expect(items).toHaveLength(1);
      const [replica] = items;
      expect(replica.spec.template.revision).toBe(status.updateRevision);
      expect(replica.status, replica.status?.message).toMatchObject({ phase: "Ready" });
      return replica;
    });
  }

  async function ask(port: number, requested: string) {
    const body = { model: requested, prompt: "Once upon a time", max_tokens: 4, temperature: 0, logprobs: 1 };
    const answer = await fetch(`http://${address}:${port}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const { choices } = (await answer.json()) as { choices?: readonly { logprobs: object }[] };
    return { status: answer.status, answer: JSON.stringify(choices?.[0]?.logprobs) };
  }

  it("drafts with a model from the disk for a model from a hub, without further settings", async () => {
    const { spec, status } = await serve(base);
    expect(spec.template.engine.speculativeDecoding).toEqual({ type: "draft" });
    const slots = await (await fetch(`http://${address}:${status.port}/slots`)).json();
    expect(slots).toMatchObject([{ speculative: true }]);
  });

  it("an adapter and a projector are a rollout; the adapter answers under its name, and is gone once removed", async () => {
    const before = await serve(base);
    const plain = await ask(before.status.port, "chat");
    const full = await serve([...base, { name: "eyes", role: "projector" }, { name: "style", role: "lora" }]);
    expect(full.spec.template.revision).not.toBe(before.spec.template.revision);
    expect(await ask(full.status.port, "chat")).toEqual(plain);
    const styled = await ask(full.status.port, "style");
    expect(styled.status).toBe(200);
    expect(styled.answer).not.toBe(plain.answer);
    expect((await ask(full.status.port, "other")).status).toBe(404);
    const props = await (await fetch(`http://${address}:${full.status.port}/props`)).json();
    expect(props).toMatchObject({ modalities: { vision: true } });
    const after = await serve(base);
    expect(after.spec.template.revision).toBe(before.spec.template.revision);
    expect(await ask(after.status.port, "chat")).toEqual(plain);
  });
});
