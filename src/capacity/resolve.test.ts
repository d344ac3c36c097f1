import { expect, test } from "vitest";
import { hardwareSchema } from "../api/fields/hardware.ts";
import { hostSchema } from "../api/host.ts";
import type { InferenceReplica } from "../api/inference-replica.ts";
import { inferenceServiceSpecSchema } from "../api/inference-service/index.ts";
import type { Model } from "../api/model.ts";
import { claimWith, memoryOn } from "./claim.ts";
import { demandOf } from "./demand.ts";
import { hostFacts } from "./placement/host-facts.ts";
import { needBytes } from "./placement/types.ts";
import { type ResolveInput, resolveService } from "./resolve.ts";
import { GGUF, readyModel } from "./testing/models.ts";
import { planPlacement } from "./testing/plan-placement.ts";

const GIB = 1024 ** 3;
function resolve(
  of: Model | undefined,
  spec: object = {},
  replicas: readonly InferenceReplica[] = [],
  further: Pick<ResolveInput, "draftModel" | "loraModels" | "earlier"> = {},
) {
  const service = {
    metadata: { name: "chat", namespace: "default", uid: "u1" },
    spec: inferenceServiceSpecSchema.parse({ modelRef: "tiny", ...spec }),
  };
  return resolveService({ service, model: of, replicas, ...further });
}

function found(sizeBytes: number, gguf?: object): InferenceReplica {
  const template = { model: { source: "file:///models/tiny.gguf" } };
  return {
    metadata: { name: "chat-0-a" },
    spec: { template },
    status: { model: { sizeBytes, gguf } },
  } as unknown as InferenceReplica;
}

test("a resolved Model gives runtime, revision and a claim that counts more than the weights", () => {
  const resolution = resolve(readyModel({}, { weightsBytes: GIB, gguf: GGUF }));
  expect(resolution).toMatchObject({
    at: "resolved",
    template: { runtime: "llamacpp", serviceUid: "u1" },
    claim: { at: "estimated", memory: { weightsBytes: GIB } },
    unhonored: [],
  });
  if (resolution.at !== "resolved" || resolution.claim.at !== "estimated") return;
  const { claimBytes, weightsBytes, kvBytes } = resolution.claim.memory;
  expect(kvBytes).toBe(16 * 4096 * 2 * 8 * 64 * 2);
  expect(claimBytes).toBeGreaterThan(weightsBytes + kvBytes);
});

test("content of the Model makes a revision, and spec.modelRevision brings an earlier one of the service back", () => {
  const at = (changeMarker: string, more: object = {}) =>
    readyModel(
      {},
      { weightsBytes: GIB, gguf: GGUF, sha256: "of-now", pinned: { key: "k", changeMarker }, ...more },
    );
  const then = resolve(at("m1"));
  const now = resolve(at("m2", { weightsBytes: 2 * GIB }));
  if (then.at !== "resolved" || now.at !== "resolved") throw new Error("not resolved");
  expect(now.template.revision).not.toBe(then.template.revision);
  const earlier = [{ ...then.template.model, sizeBytes: GIB }];
  const back = resolve(at("m2", { weightsBytes: 2 * GIB }), { modelRevision: "m1" }, [], { earlier });
  expect(back).toMatchObject({
    template: { revision: then.template.revision, model: { changeMarker: "m1" } },
    claim: { memory: { weightsBytes: GIB } },
  });
  expect(resolve(at("m2"), { modelRevision: "m2" })).toMatchObject({
    template: { revision: now.template.revision },
  });
  expect(resolve(at("m2"), { modelRevision: "m0" }, [], { earlier })).toMatchObject({
    at: "blocked",
    code: "ModelRevisionNotFound",
    message: expect.stringContaining("remove spec.modelRevision"),
  });
  const moved = earlier.map((one) => ({ ...one, source: "https://elsewhere.example/tiny.gguf" }));
  expect(resolve(at("m2"), { modelRevision: "m1" }, [], { earlier: moved }).at).toBe("blocked");
  // A commit is exact: no marker is compared.
  const commit = "c".repeat(40);
  const repository = resolve(at("m2", { pinned: { key: "k", changeMarker: "m2", revision: commit } }));
  expect(repository).toMatchObject({ template: { model: { revision: commit } } });
  expect(repository).not.toHaveProperty("template.model.changeMarker");
});

test("mode rerank is refused for a model that is known to be no reranker, and for no other", () => {
  const of = (ranking: boolean | undefined, mode: string) =>
    resolve(readyModel({}, { weightsBytes: GIB, gguf: { ...GGUF, ranking } }), { mode });
  expect(of(false, "rerank")).toMatchObject({ at: "blocked", code: "ModelNotForMode", isFinal: true });
  expect(of(true, "rerank")).toMatchObject({ at: "resolved" });
  expect(of(undefined, "rerank")).toMatchObject({ at: "resolved" });
  expect(of(false, "chat")).toMatchObject({ at: "resolved" });
});

test("a model that only its host can look at is placed, and admitted by the host's agent", () => {
  for (const source of ["ollama://qwen3:8b", "file:///models/tiny.gguf"])
    expect(resolve(readyModel({ source }))).toMatchObject({ at: "resolved", claim: { at: "hostDecides" } });
  expect(resolve(readyModel({ source: "ollama://qwen3:8b" }))).toMatchObject({
    template: { runtime: "ollama" },
  });
});

test("a GGUF runs in Ollama only where it is asked for by name", () => {
  const gguf = readyModel({}, { weightsBytes: GIB, gguf: GGUF });
  expect(resolve(gguf)).toMatchObject({ template: { runtime: "llamacpp" } });
  expect(resolve(gguf, { runtime: "ollama", jinja: true })).toMatchObject({
    template: { runtime: "ollama" },
    claim: { at: "estimated", memory: { promptCacheBytes: 0 } },
    unhonored: ["spec.jinja"],
  });
});

test("runtime generic serves any format, with the claim that its field gives", () => {
  const asked = {
    runtime: "generic",
    command: ["/opt/x/serve", "{{port}}"],
    resources: { memory: "3Gi" },
  };
  const resolution = resolve(readyModel({ format: "custom" }, { weightsBytes: GIB }), asked);
  expect(resolution).toMatchObject({
    at: "resolved",
    template: { runtime: "generic", engine: { program: { command: ["/opt/x/serve", "{{port}}"] } } },
    claim: { at: "estimated", memory: { claimBytes: 3 * GIB, weightsBytes: GIB, overheadBytes: 2 * GIB } },
    unhonored: [],
  });
});

test("a claim that a service of runtime generic states is known before any size of the weights is", () => {
  const asked = {
    runtime: "generic",
    command: ["/opt/x/serve", "{{port}}"],
    resources: { memory: "3Gi" },
  };
  for (const source of ["file:///models/mlx", "https://models.example/weights.bin"])
    expect(resolve(readyModel({ source, format: "custom" }), asked)).toMatchObject({
      claim: { at: "estimated", memory: { claimBytes: 3 * GIB } },
    });
});

test("a Model without hardware, or without an accelerator in it, runs on hosts", () => {
  const known = { weightsBytes: GIB, gguf: GGUF };
  for (const hardware of [undefined, {}, { memoryBudget: "24Gi" }])
    expect(resolve(readyModel({ hardware }, known))).toMatchObject({ at: "resolved" });
  expect(hardwareSchema.parse({})).toEqual({ accelerator: "metal" });
});

test.each([
  ["no Model", undefined, {}, "ModelNotFound", false],
  [
    "a deleted Model",
    { ...readyModel(), metadata: { name: "tiny", deletionTimestamp: "now" } },
    {},
    "ModelNotFound",
    false,
  ],
  ["a Model not inspected", readyModel({}, { phase: "Pending" }), {}, "ModelNotReady", false],
  ["a status of an older spec", readyModel({}, { observedGeneration: 0 }), {}, "ModelNotReady", false],
  ["a failed Model", readyModel({}, { phase: "Failed", reason: "SourceNotFound" }), {}, "ModelFailed", true],
  ["no size", readyModel(), {}, "ModelSizeUnknown", false],
  ["an incomplete header", readyModel({}, { weightsBytes: GIB }), {}, "ModelSizeUnknown", false],
  [
    "a runtime that does not load the format",
    readyModel({ format: "mlx" }, { weightsBytes: GIB, gguf: GGUF }),
    { runtime: "llamacpp" },
    "RuntimeMismatch",
    true,
  ],
  [
    "runtime omlx for a GGUF",
    readyModel({}, { weightsBytes: GIB, gguf: GGUF }),
    { runtime: "omlx" },
    "RuntimeMismatch",
    true,
  ],
  [
    "runtime vllm, which hosts have no driver for",
    readyModel({}, { weightsBytes: GIB, gguf: GGUF }),
    { runtime: "vllm" },
    "HostRuntimeMissing",
    true,
  ],
  [
    "a command of runtime generic that cannot work",
    readyModel({ format: "custom" }, { weightsBytes: GIB }),
    { runtime: "generic", command: ["/opt/x/serve", "{{modle}}", "{{port}}"] },
    "CommandInvalid",
    true,
  ],
  [
    "an MLX model whose configuration was not read",
    readyModel({ format: "mlx" }, { weightsBytes: GIB }),
    {},
    "ModelSizeUnknown",
    false,
  ],
  [
    "a format without a runtime on hosts",
    readyModel({ format: "safetensors" }, { weightsBytes: GIB }),
    {},
    "RuntimeMismatch",
    true,
  ],
  [
    "a Model of a LoRA adapter that is missing",
    readyModel({}, { weightsBytes: GIB, gguf: GGUF }),
    { loraAdapters: [{ modelRef: "style" }] },
    "ModelNotFound",
    false,
  ],
  [
    "a draft Model that is missing",
    readyModel({}, { weightsBytes: GIB, gguf: GGUF }),
    { speculativeDecoding: { type: "draft", draftModelRef: "small" } },
    "ModelNotFound",
    false,
  ],
])("%s is a reason, not a crash", (_, of, spec, code, isFinal) => {
  expect(resolve(of as Model | undefined, spec)).toMatchObject({ at: "blocked", code, isFinal });
});

test("LoRA adapters are in the template, with their scale, and in the claim", () => {
  const main = readyModel({}, { weightsBytes: GIB, gguf: GGUF });
  const source = "hf://org/adapters/style.gguf";
  const adapter = readyModel({ source }, { weightsBytes: 900, sizeBytes: 1_000 });
  const loraAdapters = [{ modelRef: "style", scale: 0.5 }, { modelRef: "tone" }];
  const resolution = resolve(main, { loraAdapters }, [], { loraModels: [adapter, adapter] });
  expect(resolution).toMatchObject({
    template: {
      loraAdapters: [
        { model: { source, format: "gguf", sizeBytes: 1_000 }, scale: 0.5 },
        { model: { source }, scale: 1 },
      ],
    },
    claim: { at: "estimated", memory: { loraBytes: 2_000 } },
    unhonored: [],
  });
  const without = resolve(main);
  if (resolution.at !== "resolved" || without.at !== "resolved") throw new Error("not resolved");
  expect(resolution.template.revision).not.toBe(without.template.revision);
});

test("a draft Model or an adapter on the host is sized by the host, any other must have a size", () => {
  const main = readyModel({}, { weightsBytes: GIB, gguf: GGUF });
  const speculativeDecoding = { type: "draft", draftModelRef: "small" };
  const loraAdapters = [{ modelRef: "style" }];
  const onHost = readyModel({ source: "file:///models/small.gguf" });
  const remote = readyModel({ source: "hf://org/repo/small.gguf" });
  const asDraft = (draftModel: Model) => resolve(main, { speculativeDecoding }, [], { draftModel });
  const asAdapter = (adapter: Model) => resolve(main, { loraAdapters }, [], { loraModels: [adapter] });
  for (const resolution of [asDraft(onHost), asAdapter(onHost)])
    expect(resolution).toMatchObject({ at: "resolved", claim: { at: "hostDecides" } });
  for (const resolution of [asDraft(remote), asAdapter(remote)])
    expect(resolution).toMatchObject({
      code: "ModelSizeUnknown",
      message: expect.stringMatching(/size of hf:.*small/),
    });
});

test("a file on the host that no replica has looked for yet can be used; other Models wait until they are Ready", () => {
  const unchecked = { phase: "Pending", reason: "ReadByHost" };
  expect(resolve(readyModel({ source: "file:///models/tiny.gguf" }, unchecked))).toMatchObject({
    at: "resolved",
  });
  const outdated = { ...unchecked, observedGeneration: 0 };
  expect(resolve(readyModel({ source: "file:///models/tiny.gguf" }, outdated))).toMatchObject({
    code: "ModelNotReady",
  });
  expect(resolve(readyModel({}, { phase: "Pending" }))).toMatchObject({ code: "ModelNotReady" });
});

test("a file on the host is placed without a claim, and claimed once an agent has read it", () => {
  const local = readyModel({ source: "file:///models/tiny.gguf" });
  expect(resolve(local)).toMatchObject({ claim: { at: "hostDecides" } });
  expect(resolve(local, {}, [found(2 * GIB, GGUF)])).toMatchObject({
    claim: { at: "estimated", memory: { weightsBytes: 2 * GIB } },
  });
  expect(resolve(local, {}, [found(2 * GIB)])).toMatchObject({
    claim: { at: "estimated", memory: { claimBytes: 2 * GIB } },
  });
});

test("if a download is larger than its header said, the size on the host counts, and never less", () => {
  const remote = readyModel({}, { weightsBytes: GIB, sizeBytes: GIB + 1024, gguf: GGUF });
  const has = (sizeBytes: number, changes: object = {}, gguf: object = GGUF) => {
    const file = { source: remote.spec.source, files: [], ...changes };
    const status = { model: { sizeBytes, gguf } };
    const replica = { metadata: { name: "chat-0-a" }, spec: { template: { model: file } }, status };
    return resolve(remote, {}, [replica as unknown as InferenceReplica]);
  };
  const fromHeader = resolve(remote);
  const claim = (weightsBytes: number) => ({ claim: { at: "estimated", memory: { weightsBytes } } });
  expect(fromHeader).toMatchObject(claim(GIB));
  expect(has(3 * GIB)).toMatchObject(claim(3 * GIB));
  const deeper = has(3 * GIB, {}, { ...GGUF, layerCount: 32 });
  expect(deeper).toMatchObject({ claim: { memory: { kvBytes: 32 * 4096 * 2 * 8 * 64 * 2 } } });
  expect(has(GIB + 1024)).toEqual(fromHeader);
  expect(has(GIB / 2)).toEqual(fromHeader);
  // Another file of that source, as before a change of spec.files or spec.sha256.
  expect(has(3 * GIB, { files: ["other.gguf"] })).toEqual(fromHeader);
  expect(has(3 * GIB, { sha256: "0".repeat(64) })).toEqual(fromHeader);
});

test("what is learned of the file changes no revision", () => {
  const local = readyModel({ source: "file:///models/tiny.gguf" });
  const before = resolve(local);
  const after = resolve(local, {}, [found(2 * GIB, GGUF)]);
  if (before.at !== "resolved" || after.at !== "resolved") throw new Error("both resolve");
  expect(after.template.revision).toBe(before.template.revision);
});

test("the claim is the one of the host's own backend, and placement asks for that", () => {
  const resolution = resolve(readyModel({}, { weightsBytes: GIB, gguf: GGUF }));
  if (resolution.at !== "resolved" || resolution.claim.at !== "estimated") throw new Error("unresolved");
  const { claim, template } = resolution;
  const hostOf = (os: string) => hostSchema.parse({ metadata: { name: os }, status: { info: { os } } });
  const [mac, linux] = ["darwin", "linux"].map((os) => memoryOn(claim, hostOf(os)).claimBytes);
  expect(linux).toBeLessThan(mac ?? 0);
  const service = {
    metadata: { name: "chat", namespace: "default" },
    spec: inferenceServiceSpecSchema.parse({ modelRef: "tiny" }),
  };
  const slot = { ordinal: 0, mayPreempt: true, predecessors: [], refusals: [] };
  const demand = demandOf({ service, model: undefined, template, claim, ...slot });
  const facts = hostFacts(hostOf("linux"));
  expect(needBytes(demand, facts)).toBe(linux);
  expect(needBytes(demand, hostFacts(hostOf("darwin")))).toBe(mac);
  const budget = { known: true, bytes: linux ?? 0, basis: "test" } as const;
  const good = { ready: { status: "True" }, reachable: { status: "True" }, runtimes: ["llamacpp"] } as const;
  const tight = ["linux", "darwin"].map((os) => ({ ...hostFacts(hostOf(os)), ...good, budget }));
  const { placed } = planPlacement({ hosts: tight, claims: [], demands: [demand] }, 0);
  expect(placed).toMatchObject([{ host: "linux" }]);
});

test("other settings of a file on a host are estimated from the header that its agent read", () => {
  const replicas = [found(GIB, GGUF)];
  const onHost = readyModel({ source: "file:///models/tiny.gguf" });
  const resolution = resolve(onHost, {}, replicas);
  if (resolution.at !== "resolved") throw new Error("unresolved");
  const { template } = resolution;
  const estimate = claimWith({ template, model: onHost, draftModel: undefined, replicas });
  expect(estimate({ contextSize: 8192 })).toBeGreaterThan(estimate({ contextSize: 4096 }) ?? 0);
  expect(claimWith({ template, model: onHost, draftModel: undefined, replicas: [] })({})).toBeUndefined();
});
