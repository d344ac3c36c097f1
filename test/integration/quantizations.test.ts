/** A repository of ten quantizations, as they are common on Hugging Face: the Model chooses one, and every part takes it. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { testAddress } from "../../agent/fixtures/agent.ts";
import { INFERENCE_REPLICAS, MODELS } from "../../src/api/kinds.ts";
import { type Farm, startFarm } from "../bed/farm.ts";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { findLlamaServer } from "../fixtures/llama-server.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { type HubOrigin, startHub } from "./hub-origin.ts";

const NAMES = ["Q2_K", "Q3_K_M", "Q4_0", "Q4_K_S", "Q4_K_M", "Q5_0", "Q5_K_S", "Q5_K_M", "Q6_K", "Q8_0"];
const soon = { timeout: 60_000, interval: 50 };
const commit = "c".repeat(40);

describe.skipIf(findLlamaServer() === undefined)("a repository of ten quantizations", () => {
  let cluster: PrivateCluster;
  let hub: HubOrigin;
  let farm: Farm;
  const files: Record<string, Buffer> = { "README.md": Buffer.from("# ten of them") };

  beforeAll(async () => {
    cluster = await startCluster();
    for (const [seed, name] of NAMES.entries()) {
      const file = path.join(cluster.dir, `tiny-${name}.gguf`);
      await writeTinyGguf(file, { seed: seed + 1 });
      files[`tiny-${name}.gguf`] = readFileSync(file);
    }
    hub = await startHub({ "org/tiny": { commit, files } });
    const config = { disk: { reserve: 0 }, huggingFace: { endpoint: hub.url } };
    farm = await startFarm({
      kubeconfig: cluster.kubeconfig,
      address: testAddress(),
      agents: [{ config }],
      controllerArgs: ["--hf-endpoint", hub.url],
    });
  });

  afterAll(async () => {
    await farm?.[Symbol.asyncDispose]();
    await hub?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });

  async function apply(quantization: string): Promise<void> {
    const apiVersion = "metalbridge.dev/v1alpha1";
    const metadata = { name: "tiny", namespace: "default" };
    const model = { source: "hf://org/tiny", quantization, hardware: { accelerator: "metal" } };
    const engine = { contextSize: 256, parallelSlots: 1, promptCacheMiB: 0 };
    const items = [
      { apiVersion, kind: "Model", metadata, spec: model },
      { apiVersion, kind: "InferenceService", metadata, spec: { modelRef: "tiny", ...engine } },
    ];
    const list = { apiVersion: "v1", kind: "List", items };
    await farm.kubectl(["apply", "-f", "-"], { input: JSON.stringify(list) });
  }

  const runs = (quantization: string) =>
    vi.waitFor(async () => {
      const file = `tiny-${quantization}.gguf`;
      const items = await farm.reader.list(INFERENCE_REPLICAS, "metalbridge.dev/service=tiny");
      expect(items, farm.agent().log().slice(-2_000)).toHaveLength(1);
      const [{ spec, status }] = items;
      expect(spec.template.model).toMatchObject({ files: [file], revision: commit });
      expect(status).toMatchObject({ phase: "Ready", model: { sha256: sha256(files[file]) } });
      const { status: seen } = await farm.reader.get(MODELS, "tiny");
      expect(seen).toMatchObject({ files: [file], sha256: status.model.sha256 });
      return { spec, status };
    }, soon);

  it("the host downloads the quantization of the Model, and no other file", async () => {
    await apply("Q4_K_M");
    await runs("Q4_K_M");
    const fetched = hub.paths.filter((one) => one.includes("/resolve/"));
    expect(new Set(fetched)).toEqual(new Set([`/org/tiny/resolve/${commit}/tiny-Q4_K_M.gguf`]));
  });

  it("another quantization is another revision, which the replica rolls to", async () => {
    const before = await runs("Q4_K_M");
    await apply("Q8_0");
    const after = await runs("Q8_0");
    expect(after.spec.template.revision).not.toBe(before.spec.template.revision);
  });
});

function sha256(content: Buffer | undefined): string {
  return createHash("sha256")
    .update(content ?? "")
    .digest("hex");
}
