/**
 * Models from hubs, registries and buckets on a real llama-server: a service of four Models, each from a source of its own
 * kind; a repository of ten quantizations, as they are common on Hugging Face; and the manifests of docs/models.md, from their
 * sources to an answer.
 */
import { readFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { testAddress } from "../../agent/fixtures/agent.ts";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { sha256Hex } from "../../src/util/hash.ts";
import { model, serviceAnywhere } from "../bed/manifests.ts";
import {
  type OciRegistry,
  orasLayer,
  PASSWORD,
  registryProgram,
  startOciRegistry,
  USERNAME,
} from "../bed/oci-registry.ts";
import { startS3Server, whyNoS3Server } from "../bed/s3-server.ts";
import { NAMESPACE } from "../bed/services.ts";
import { startFleet, type TestFleet } from "../bed/test-fleet.ts";
import { until } from "../bed/until.ts";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { documentedManifests } from "../docs/manifests.ts";
import { findLlamaServer } from "../fixtures/llama-server.ts";
import { writeTinyGguf, writeTinyLora, writeTinyProjector } from "../fixtures/tiny-gguf.ts";
import { type HubOrigin, startHub, startModelScope } from "./hub-origin.ts";

const NAMES = ["Q2_K", "Q3_K_M", "Q4_0", "Q4_K_S", "Q4_K_M", "Q5_0", "Q5_K_S", "Q5_K_M", "Q6_K", "Q8_0"];
const address = testAddress();
const commit = (letter: string) => letter.repeat(40);

describe.skipIf(findLlamaServer() === undefined)("models from hubs", () => {
  let cluster: PrivateCluster;
  let hub: HubOrigin;
  let registry: OciRegistry | undefined;
  let farm: TestFleet;
  const quantized: Record<string, Buffer> = { "README.md": Buffer.from("# ten of them") };

  beforeAll(async () => {
    cluster = await startCluster();
    const at = (name: string) => path.join(cluster.dir, name);
    for (const [seed, name] of NAMES.entries()) {
      await writeTinyGguf(at(`tiny-${name}.gguf`), { seed: seed + 1 });
      quantized[`tiny-${name}.gguf`] = readFileSync(at(`tiny-${name}.gguf`));
    }
    await writeTinyGguf(at("tiny.gguf"));
    await writeTinyProjector(at("eyes.gguf"));
    await writeTinyLora(at("style.gguf"), 2);
    const file = (name: string) => ({ [name]: readFileSync(at(name)) });
    hub = await startHub({
      "org/ten": { commit: commit("b"), files: quantized },
      "org/tiny": { commit: commit("c"), files: file("tiny.gguf") },
      "org/eyes": { commit: commit("d"), files: file("eyes.gguf") },
      "org/style": { commit: commit("e"), files: file("style.gguf") },
    });
    registry = registryProgram === undefined ? undefined : await startOciRegistry({ auth: "token" });
    const library = registry === undefined ? "http://127.0.0.1:9" : `http://${registry.host}`;
    const config = {
      disk: { reserve: 0 },
      huggingFace: { endpoint: hub.url },
      ollama: { registry: library },
      sources: { allowLoopback: true },
    };
    farm = await startFleet({
      kubeconfig: cluster.kubeconfig,
      address,
      agents: [{ config }],
      controllerArgs: ["--hf-endpoint", hub.url, "--ollama-registry", library, "--allow-loopback"],
    });
  });

  afterAll(async () => {
    await farm?.[Symbol.asyncDispose]();
    await hub?.[Symbol.asyncDispose]();
    await registry?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });

  /** An adapter that is added or removed replaces the engine by a rollout, because llama-server loads adapters only when it starts. */
  describe("a service of Models with roles", () => {
    const base = [
      { name: "tiny", role: "main" },
      { name: "small", role: "draft" },
    ];

    beforeAll(async () => {
      // Agents read files in their model folders only.
      const onHost = path.join(farm.modelsDir, "small.gguf");
      await writeTinyGguf(onHost, { layers: 1 });
      await farm.objects.apply(
        model("tiny", "hf://org/tiny/tiny.gguf", {}, NAMESPACE),
        model("small", onHost, {}, NAMESPACE),
        model("eyes", "hf://org/eyes/eyes.gguf", {}, NAMESPACE),
        model("style", `${hub.url}/org/style/resolve/${commit("e")}/style.gguf`, {}, NAMESPACE),
      );
    });

    afterAll(() => farm.objects.remove(NAMESPACE, "isvc", "mdl"));

    /** Applies the service and returns its replica, once that is Ready and the only one. */
    async function serve(modelRefs: readonly object[]) {
      const spec = { modelRef: undefined, modelRefs, contextSize: 512, rollout: { drainSeconds: 1 } };
      await farm.objects.apply(serviceAnywhere("chat", spec, NAMESPACE));
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
      const body = {
        model: requested,
        prompt: "Once upon a time",
        max_tokens: 4,
        temperature: 0,
        logprobs: 1,
      };
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
      const full = await serve([
        ...base,
        { name: "eyes", role: "projector" },
        { name: "style", role: "lora" },
      ]);
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

  describe("a repository of ten quantizations", () => {
    afterAll(() => farm.objects.remove(NAMESPACE, "isvc", "mdl"));

    const apply = (quantization: string): Promise<void> =>
      serve("ten", { source: "hf://org/ten", quantization, hardware: { accelerator: "metal" } });

    /** Applies a Model and a service of its name, and what else is given. */
    async function serve(name: string, spec: object, others: readonly object[] = []): Promise<void> {
      const own = [model(name, "", spec, NAMESPACE), serviceAnywhere(name, {}, NAMESPACE)];
      await farm.objects.apply(...others, ...own);
    }

    const runs = (quantization: string) =>
      until(
        async () => {
          const file = `tiny-${quantization}.gguf`;
          const items = await farm.objects.list(INFERENCE_REPLICAS, "metalbridge.dev/service=ten");
          expect(items, farm.agent().log().slice(-2_000)).toHaveLength(1);
          const [{ spec, status }] = items;
          expect(spec.template.model).toMatchObject({ files: [file], revision: commit("b") });
          expect(status).toMatchObject({ phase: "Ready", model: { sha256: sha256(quantized[file]) } });
          const { status: seen } = await farm.objects.read(MODELS, "ten");
          expect(seen).toMatchObject({ files: [file], sha256: status.model.sha256 });
          return { spec, status };
        },
        { everyMs: 250 },
      );

    it("the host downloads the quantization of the Model, and no other file", async () => {
      await apply("Q4_K_M");
      await runs("Q4_K_M");
      const fetched = hub.paths.filter((one) => one.startsWith("/org/ten/resolve/"));
      expect(new Set(fetched)).toEqual(new Set([`/org/ten/resolve/${commit("b")}/tiny-Q4_K_M.gguf`]));
    });

    it("another quantization is another revision, which the replica rolls to", async () => {
      await apply("Q4_K_M");
      const before = await runs("Q4_K_M");
      await apply("Q8_0");
      const after = await runs("Q8_0");
      expect(after.spec.template.revision).not.toBe(before.spec.template.revision);
    });

    /** The Model that docs/models.md shows, with the place of its source replaced by the one of the test. */
    function documented(name: string, place: string, ours: string): object {
      const found = documentedManifests().find(
        ({ where, object }) => where.startsWith("docs/models.md") && object.metadata.name === name,
      );
      const spec = found?.object.spec as { source: string };
      expect(spec.source).toContain(place);
      return { ...spec, source: spec.source.replace(place, ours) };
    }

    /** `digest`: the revision, for sources that have one. */
    async function answers(name: string, digest: string | undefined, file: string): Promise<void> {
      const port = await until(async () => {
        const [replica] = await farm.objects.list(INFERENCE_REPLICAS, `metalbridge.dev/service=${name}`);
        const { status: model } = await farm.objects.read(MODELS, name);
        expect(model, farm.agent().log().slice(-2_000)).toMatchObject({ phase: "Ready", files: [file] });
        expect(model?.pinned?.revision).toBe(digest);
        expect(model?.gguf).toMatchObject({ architecture: "llama" });
        expect(replica?.spec.template.model?.revision).toBe(digest);
        // Buckets state no checksum, and the host finds its own.
        const known = model?.sha256 ?? expect.stringMatching(/^[0-9a-f]{64}$/);
        expect(replica?.status).toMatchObject({ phase: "Ready", model: { sha256: known } });
        return replica?.status?.port;
      });
      const response = await fetch(`http://${address}:${port}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ messages: [{ role: "user", content: "hello" }], max_tokens: 4 }),
      });
      const { usage } = (await response.json()) as { usage: { completion_tokens: number } };
      expect(usage.completion_tokens).toBeGreaterThan(0);
    }

    it.skipIf(registryProgram === undefined)(
      "an artifact of a private registry, and a model of the Ollama library, run in llama-server",
      async () => {
        const { host = "", push } = registry ?? {};
        const content = (name: string) => quantized[`tiny-${name}.gguf`] ?? Buffer.alloc(0);
        const image = await push?.("your-org/your-model", "v1", [orasLayer("tiny.gguf", content("Q4_0"))]);
        const oci = documented("from-registry", "ghcr.io", host);
        const login = {
          apiVersion: "v1",
          kind: "Secret",
          metadata: { name: "registry-login", namespace: NAMESPACE },
          stringData: { username: USERNAME, password: PASSWORD },
        };
        await serve("from-registry", oci, [login]);
        await answers("from-registry", image ?? "", "tiny.gguf");
        const mediaType = "application/vnd.ollama.image.model";
        const model = await push?.("public/qwen3", "8b", [{ mediaType, content: content("Q5_0") }]);
        await serve("from-ollama-library", documented("from-ollama-library", "qwen3:8b", "public/qwen3:8b"));
        await answers("from-ollama-library", model ?? "", "model.gguf");
      },
      3 * 60_000,
    );

    it.skipIf(whyNoS3Server() !== undefined)(
      "a file of a private bucket runs in llama-server",
      async () => {
        await using s3 = await startS3Server();
        const content = quantized["tiny-Q6_K.gguf"] ?? Buffer.alloc(0);
        await s3.put("models/tiny.gguf", content, Buffer.from(sha256(content), "hex").toString("base64"));
        const model = documented("from-s3", "your-bucket/models/your-model-Q4_K_M.gguf", "models/tiny.gguf");
        const metadata = { name: "bucket-keys", namespace: NAMESPACE };
        const keys = { apiVersion: "v1", kind: "Secret", metadata, stringData: s3.credentials };
        await serve("from-s3", model, [keys]);
        await answers("from-s3", undefined, "tiny.gguf");
      },
      3 * 60_000,
    );

    // Their own servers cannot run here: Google's and Alibaba's buckets stand on the S3 server, without a signature.
    it.skipIf(whyNoS3Server() !== undefined)(
      "files of ModelScope, Google Cloud Storage and OSS run in llama-server",
      async () => {
        await using s3 = await startS3Server();
        const content = (name: string) => quantized[`tiny-${name}.gguf`] ?? Buffer.alloc(0);
        await s3.put("public/google.gguf", content("Q2_K"));
        await s3.put("public/oss.gguf", content("Q3_K_M"));
        await using scope = await startModelScope("org/tiny", "tiny.gguf", content("Q5_K_M"));
        const served = [
          { name: "from-google", source: "gs://public/google.gguf", STORAGE_EMULATOR_HOST: s3.url },
          { name: "from-oss", source: "oss://public/oss.gguf", OSS_ENDPOINT: s3.url },
          { name: "from-modelscope", source: "modelscope://org/tiny", MODELSCOPE_ENDPOINT: scope.url },
        ];
        for (const { name, source, ...stringData } of served) {
          const secret = { apiVersion: "v1", kind: "Secret", metadata: { name, namespace: NAMESPACE } };
          const model = { source, sourceSecretRef: { name }, hardware: { accelerator: "metal" } };
          await serve(name, model, [{ ...secret, stringData }]);
        }
        await answers("from-google", undefined, "google.gguf");
        await answers("from-oss", undefined, "oss.gguf");
        await answers("from-modelscope", undefined, "tiny.gguf");
      },
      3 * 60_000,
    );
  });
});

function sha256(content: Buffer | undefined): string {
  return sha256Hex(content ?? "");
}
