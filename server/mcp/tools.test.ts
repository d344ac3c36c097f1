/** Our own tools on the objects of a large cluster. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { createDensity } from "../../fitness/density/density.ts";
import { createFitIndex } from "../../fitness/density/fits.ts";
import { aHost } from "../../fitness/density/fixtures/fleet.ts";
import { machineFromHost } from "../../fitness/density/place.ts";
import { createLlmfitRest } from "../../fitness/llmfit/rest/rest.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { type InferenceService, inferenceServiceSpecSchema } from "../../src/api/inference-service/index.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Model } from "../../src/api/model.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import type { ClusterObjects, McpContext } from "./context.ts";
import { ownTools } from "./tools.ts";

const GIB = 1024 ** 3;

function contextOf(objects: Readonly<Record<string, readonly KubeObject[]>>): McpContext {
  const density = createDensity(createFitIndex([]));
  for (let index = 0; index < 12; index += 1)
    density.setPlace("Host", `mac-${index}`, machineFromHost(aHost(`mac-${index}`)));
  const list = async ({ plural }: { readonly plural: string }) => objects[plural] ?? [];
  return {
    now: () => ({ wallMs: 0, monotonicMs: 0 }),
    density: async () => ({ density }),
    llmfit: createLlmfitRest([]),
    cluster: (use) => use({ namespace: "default", list: list as ClusterObjects["list"] }),
  };
}

async function call(context: McpContext, name: string, args: object): Promise<unknown> {
  const tool = ownTools(context).find((one) => one.name === name);
  return tool?.answer(tool.input.parse(args), async () => false);
}

const service = (name: string): InferenceService => ({
  metadata: { name, namespace: "default", uid: name },
  spec: inferenceServiceSpecSchema.parse({ modelRef: "large" }),
});

test("explain_placement returns the closest hundred hosts, and remedies for the ten closest misses", async () => {
  const conditions = ["Ready", "Reachable"].map((type) => {
    const when = { lastTransitionTime: "2026-01-01T00:00:00Z" };
    return { type, status: "True" as const, reason: "R", message: "", ...when };
  });
  const hosts = Array.from({ length: 150 }, (_, index) =>
    aHost(`mac-${index}`, { memoryGib: 48 + (index % 16), status: { conditions } }),
  );
  const gguf = { layerCount: 64, headCountKV: 8, keyLength: 128, valueLength: 128, embeddingSize: 8192 };
  const large = {
    metadata: { name: "large", namespace: "default", generation: 1 },
    spec: { source: "https://models.example/large.gguf", hardware: { accelerator: "metal" } },
    status: {
      phase: "Ready",
      observedGeneration: 1,
      weightsBytes: 40 * GIB,
      sizeBytes: 40 * GIB,
      gguf: { ...gguf, contextLength: 131_072 },
    },
  } as unknown as Model;
  const chat = service("chat");
  const asked = { ...chat, spec: { ...chat.spec, contextSize: 131_072 } };
  const objects = { [HOSTS.plural]: hosts, [MODELS.plural]: [large], [INFERENCE_SERVICES.plural]: [asked] };
  const { oneMore } = (await call(contextOf(objects), "explain_placement", { service: "chat" })) as {
    readonly oneMore: { readonly total: number; readonly hosts: readonly { readonly helps?: object }[] };
  };
  expect(oneMore).toMatchObject({ total: 150, hosts: { length: 100 } });
  expect(oneMore.hosts.filter(({ helps }) => helps !== undefined)).toHaveLength(10);
});

test("list_services reads each replica once, and builds only the rows that it returns", async () => {
  let reads = 0;
  const replica = (index: number) => ({
    metadata: { name: `replica-${index}`, namespace: "default" },
    get spec() {
      reads += 1;
      return { template: { serviceName: `chat-${index % 50}`, hostName: `mac-${index}` } };
    },
  });
  const replicas = Array.from({ length: 100 }, (_, index) => replica(index) as unknown as InferenceReplica);
  const services = Array.from({ length: 50 }, (_, index) => service(`chat-${49 - index}`));
  const objects = { [INFERENCE_REPLICAS.plural]: replicas, [INFERENCE_SERVICES.plural]: services };
  expect(await call(contextOf(objects), "list_services", { limit: 2 })).toMatchObject({
    total: 50,
    services: [
      { service: "default/chat-0", hosts: ["mac-0", "mac-50"] },
      { service: "default/chat-1", hosts: ["mac-1", "mac-51"] },
    ],
  });
  expect(reads).toBe(100 + 4);
});

test("list_services returns rows up to its limit of at most 100, and counts all services", async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(150), fc.integer({ min: -1, max: 103 }), async (count, limit) => {
      const services = Array.from({ length: count }, (_, index) => service(`chat-${index}`));
      const listed = call(contextOf({ [INFERENCE_SERVICES.plural]: services }), "list_services", { limit });
      if (limit < 1 || limit > 100) return void (await expect(listed).rejects.toThrow());
      expect(await listed).toMatchObject({ total: count, services: { length: Math.min(count, limit) } });
    }),
    {
      numRuns: 40,
      examples: [
        [150, 100],
        [150, 101],
      ],
    },
  );
});

test("tools tell a caller who may see a part of the cluster what is missing", async () => {
  const missing = ["Only namespace default is shown."];
  const all = contextOf({ [INFERENCE_SERVICES.plural]: [service("chat")] });
  const part: McpContext = {
    ...all,
    density: async () => ({ ...(await all.density()), missing }),
    cluster: (use) => all.cluster((cluster) => use({ ...cluster, missing: () => missing })),
  };
  expect(await call(part, "list_services", {})).toMatchObject({ total: 1, missing });
  expect(await call(part, "explain_placement", { service: "chat" })).toMatchObject({
    oneMore: { unknown: missing[0] },
  });
  expect(await call(part, "fit", { node: "mac-1" })).toMatchObject({ NodeName: "mac-1", missing });
  await expect(call(part, "fit", { node: "hidden" })).rejects.toThrow(missing[0]);
  expect(await call(all, "list_services", {})).not.toHaveProperty("missing");
});
