import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse, stringify } from "yaml";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import { buildCacheClaim, cacheClaimName } from "./cache-claim.ts";
import { desiredCacheOf, needsCache } from "./cache-eligibility.ts";
import type { CacheSettings } from "./contract.ts";
import { desiredVolume } from "./fixtures/desired-volume.ts";
import {
  buildFetchJob,
  buildFetchPolicy,
  cacheKeyOf,
  downloadKey,
  fetchJobName,
  linkOf,
} from "./model-cache.ts";
import { resolvePods } from "./resolve.ts";

const FOLDER = new URL("golden/model-cache/", import.meta.url);

const defaults: CacheSettings = {
  image: "registry.example.com/metalbridge:1.0.0",
  imagePullSecrets: [],
  cacheScope: "Namespace",
  cacheSize: "100Gi",
  cacheAccessMode: "ReadWriteMany",
  hfEndpoint: "https://huggingface.co",
  allowLoopback: false,
  allowPrivate: false,
  allowNetworks: [],
};

function model(spec: object, name = "m"): Model {
  return {
    metadata: { name, namespace: "n", uid: "u" },
    spec: { source: "hf://org/repo", ...spec } as Model["spec"],
  };
}

function service(name: string, spec: object): InferenceService {
  return { metadata: { name, namespace: "n" }, spec: { placement: {}, ...spec } } as InferenceService;
}

const cpu = { hardware: { accelerator: "cpu" } };

test.each(readdirSync(FOLDER).filter((name) => name.endsWith(".input.yaml")))("golden: %s", (name) => {
  const input = parse(readFileSync(new URL(name, FOLDER), "utf8"));
  const settings: CacheSettings = { ...defaults, ...input.settings };
  const volume = desiredVolume(input.model, settings);
  const key = downloadKey(input.model, volume, "claim-uid", input.revision);
  const download = { model: input.model, volume, key, attempt: 1, revision: input.revision };
  const built = {
    claim: volume.isOurs ? buildCacheClaim(input.model, volume, settings) : null,
    job: buildFetchJob(download, settings),
    networkPolicy: buildFetchPolicy(download, settings),
  };
  const expected = new URL(name.replace(".input.", ".objects."), FOLDER);
  if (process.env.UPDATE_GOLDEN === "1")
    writeFileSync(expected, stringify(built, { lineWidth: 0, aliasDuplicateObjects: false }));
  expect(built).toEqual(parse(readFileSync(expected, "utf8")));
});

test("a Secret's value cannot get into an address: kubelet finds no reference to replace", () => {
  const bad = model({ ...cpu, source: "https://evil.example.com/$(SOURCE_HF_TOKEN)/$$(X)/$5" });
  const { template } = buildFetchJob(
    { model: bad, volume: desiredVolume(bad, defaults), key: "k", attempt: 1 },
    defaults,
  ).spec;
  expect(template.spec.containers[0]?.args?.[1]).toBe(
    "https://evil.example.com/$$(SOURCE_HF_TOKEN)/$$$$(X)/$$5",
  );
});

test("weights go to a volume for services in pods, and before there is a service for every accelerator of pods", () => {
  const metal = model({});
  expect(needsCache(metal, [service("a", {})])).toBe(false);
  expect(needsCache(metal, [service("a", {}), service("b", { placement: { on: "Pods" } })])).toBe(true);
  expect(needsCache(model(cpu), [])).toBe(true);
  expect(needsCache(model(cpu), [service("a", {})])).toBe(true);
  expect(needsCache(model(cpu), [service("a", { placement: { on: "Hosts" } })])).toBe(false);
  expect(desiredCacheOf(metal, [], defaults)).toEqual({ at: "none" });
});

test("drafts and adapters are on a volume if the Model of their service runs in pods, whatever their own spec", () => {
  const served = [service("a", { modelRef: "main" })];
  const placeFor = (own: object, main: Model | undefined) =>
    desiredCacheOf(model(own, "draft"), served, defaults, () => main).at;
  expect(placeFor({}, model(cpu, "main"))).toBe("volume");
  expect(placeFor(cpu, model({}, "main"))).toBe("none");
  // Until its Model is there.
  expect(placeFor(cpu, undefined)).toBe("volume");
  expect(placeFor({}, undefined)).toBe("none");
});

test.each<[source: string, port: number, flag: string]>([
  ["oci://registry.example.com:5000/org/m:v1", 5000, "--hf-endpoint=https://huggingface.co"],
  ["ollama://qwen3:8b", 11_000, "--ollama-registry=http://mirror.example.com:11000"],
  ["ollama://registry.example.com:5001/org/m", 5001, "--ollama-registry=http://mirror.example.com:11000"],
])("the Job of %s may reach its registry", (source, port, flag) => {
  const settings = { ...defaults, ollamaRegistry: "http://mirror.example.com:11000" };
  const base = model({ ...cpu, source, format: "gguf" });
  const download = { model: base, volume: desiredVolume(base, settings), key: "k", attempt: 1 };
  const [, web] = buildFetchPolicy(download, settings).spec.egress ?? [];
  expect(web).toMatchObject({ ports: [443, 80, port].map((one) => ({ protocol: "TCP", port: one })) });
  const [container] = buildFetchJob(download, settings).spec.template.spec.containers;
  expect(container?.args).toEqual(expect.arrayContaining([source, "--format=gguf", flag]));
});

test("the Job has the proxies of the controller and may reach their ports, and the kubelet finds no reference in them", () => {
  const settings: CacheSettings = {
    ...defaults,
    proxyVariables: [
      { name: "HTTPS_PROXY", value: "http://me:$(A)@p.example:3128" },
      { name: "HTTP_PROXY", value: "p.example:8080" },
      { name: "NO_PROXY", value: "10.0.0.0/8" },
    ],
  };
  const remote = model({ ...cpu, source: "https://hub.example/m.gguf" });
  const download = { model: remote, volume: desiredVolume(remote, settings), key: "k", attempt: 1 };
  const [, web] = buildFetchPolicy(download, settings).spec.egress ?? [];
  expect(web).toMatchObject({ ports: [443, 80, 3128, 8080].map((port) => ({ protocol: "TCP", port })) });
  const [container] = buildFetchJob(download, settings).spec.template.spec.containers;
  expect(container?.env).toEqual([
    { name: "HTTPS_PROXY", value: "http://me:$$(A)@p.example:3128" },
    { name: "HTTP_PROXY", value: "p.example:8080" },
    { name: "NO_PROXY", value: "10.0.0.0/8" },
  ]);
});

test("the claim is the namespace's, or the one that all services name; ephemeral ones need none", () => {
  const cached = service("a", {});
  const named = service("b", { modelCache: { claimName: "mine" } });
  const ephemeral = service("c", { modelCache: { persistence: "Ephemeral" } });
  const skips = service("d", { skipModelInit: true });
  expect(desiredVolume(model(cpu), defaults)).toMatchObject({
    claimName: "metalbridge-model-cache",
    isOurs: true,
  });
  expect(desiredVolume(model(cpu), defaults, [named, ephemeral])).toMatchObject({
    claimName: "mine",
    isOurs: false,
  });
  expect(desiredCacheOf(model(cpu), [ephemeral, skips], defaults)).toEqual({ at: "none" });
  expect(desiredCacheOf(model({ ...cpu, source: "file:///m.gguf" }), [skips], defaults)).toEqual({
    at: "none",
  });
  const pulled = { ...cpu, source: "ollama://qwen3:8b" };
  expect(desiredCacheOf(model(pulled), [cached, named], defaults)).toEqual({ at: "none" });
  expect(desiredCacheOf(model({ ...pulled, format: "gguf" }), [cached], defaults).at).toBe("volume");
  const own = { ...defaults, ollamaRegistry: "https://other.example" };
  const elsewhere = model({ ...cpu, source: "ollama://other.example/org/m" });
  expect(desiredCacheOf(elsewhere, [cached], own)).toEqual({ at: "none" });
  expect(desiredCacheOf(model(cpu), [cached, named], defaults)).toMatchObject({
    at: "refused",
    code: "ModelCacheAmbiguous",
    message: expect.stringContaining("the model cache of the namespace, mine"),
  });
});

test.each<[spec: object, services: InferenceService[], code: string, message: RegExp]>([
  [{ source: "file:///m.gguf" }, [], "SourceNotSupported", /pods cannot fetch file:/],
  [{ source: "ollama://other.example/org/m" }, [], "SourceNotSupported", /set spec\.format to gguf/],
  [{ source: "pvc://Other/m.gguf" }, [], "SourceInvalid", /not a claim's name/],
  [
    {},
    [service("a", { modelCache: { claimName: "other/claim" } })],
    "VolumeClaimNotFound",
    /another namespace/,
  ],
])("%j is refused with %s", (spec, services, code, message) => {
  const refused = { at: "refused", code, message: expect.stringMatching(message) };
  expect(desiredCacheOf(model({ ...cpu, ...spec }), services, defaults)).toEqual(refused);
});

test.each(["ollama://qwen3:8b", "ollama://other.example/org/m"])(
  "%s of a draft is refused: only setting the format helps, for the engine pulls main Models only",
  (source) => {
    const draft = model({ ...cpu, source }, "draft");
    const main = model({ ...cpu, source: "ollama://qwen3:8b" }, "main");
    const cached = service("a", { modelRef: "main", speculativeDecoding: { draftModelRef: "draft" } });
    const ephemeral = { ...cached, spec: { ...cached.spec, modelCache: { persistence: "Ephemeral" } } };
    const refusal = {
      code: "SourceNotSupported",
      message: expect.stringMatching(/only .* main Model.*gguf$/),
    };
    expect(desiredCacheOf(draft, [cached], defaults, () => main)).toEqual({ at: "refused", ...refusal });
    expect(desiredCacheOf(main, [cached], defaults, () => main)).toEqual({ at: "none" });
    for (const one of [cached, ephemeral as InferenceService])
      expect(
        resolvePods({
          service: one,
          model: { ...main, status: { phase: "Ready" } },
          draftModel: { ...draft, status: { phase: "Ready" } },
          loraModels: [],
          settings: { images: {}, fetch: defaults },
        }),
      ).toMatchObject({ at: "blocked", ...refusal });
  },
);

test.each<[spec: object, pods: object, code: string]>([
  [{ source: "file:///m.gguf" }, {}, "SourceNotSupported"],
  [{}, { modelCache: { claimName: "other/claim" } }, "VolumeClaimNotFound"],
])("what pods cannot use of %j leaves the Model to the services on hosts", (spec, pods, code) => {
  const onHosts = service("a", { placement: { on: "Hosts" } });
  const inPods = service("b", { placement: { on: "Pods" }, ...pods });
  expect(desiredCacheOf(model(spec), [onHosts, inPods], defaults)).toMatchObject({
    at: "none",
    refusal: { code },
  });
  expect(desiredCacheOf(model(spec), [inPods], defaults)).toMatchObject({ at: "refused", code });
});

test("a volume that one node mounts is for one Model, with room for its weights; others are the namespace's", () => {
  const once: CacheSettings = { ...defaults, cacheScope: undefined, cacheAccessMode: "ReadWriteOnce" };
  const many: CacheSettings = { ...once, cacheAccessMode: "ReadWriteMany" };
  const sized = { ...model(cpu), status: { sizeBytes: 131 * 2 ** 30 } };
  const built = (of: Model, settings: CacheSettings) =>
    buildCacheClaim(of, desiredVolume(of, settings), settings);
  expect(built(sized, once)).toMatchObject({
    metadata: { name: "m-model-cache", ownerReferences: [{ kind: "Model", name: "m" }] },
    spec: { resources: { requests: { storage: "139Gi" } } },
  });
  expect(built(model(cpu), once).spec).toMatchObject({ resources: { requests: { storage: "100Gi" } } });
  const shared = built(sized, many);
  expect(shared).toMatchObject({
    metadata: { name: "metalbridge-model-cache" },
    spec: { resources: { requests: { storage: "100Gi" } } },
  });
  expect(shared.metadata.ownerReferences).toBeUndefined();
  const cache = { phase: "Ready", reason: "Downloaded", message: "", folder: cacheKeyOf(sized) } as const;
  const before = { ...sized, status: { cache: { ...cache, claimName: "metalbridge-model-cache" } } };
  expect(desiredVolume(before, once).claimName).toBe("metalbridge-model-cache");
  const elsewhere = { ...before, spec: { ...before.spec, source: "hf://org/other" } };
  expect(desiredVolume(elsewhere, once).claimName).toBe("m-model-cache");
});

test("a change of the controller's settings moves no weights, on the Model's or the namespace's claim", () => {
  const once: CacheSettings = { ...defaults, cacheScope: undefined, cacheAccessMode: "ReadWriteOnce" };
  const all: CacheSettings[] = [once, { ...once, cacheScope: "Namespace" }, { ...defaults }];
  const filled = [{ phase: "Ready" }, { phase: "Pending", filledBy: "Pods" }] as const;
  for (const claimName of ["m-model-cache", "metalbridge-model-cache"])
    for (const by of filled)
      for (const settings of all) {
        const cache = { ...by, claimName, folder: cacheKeyOf(model(cpu)), reason: "", message: "" };
        expect(desiredVolume({ ...model(cpu), status: { cache } }, settings).claimName).toBe(claimName);
      }
});

test("names stay within their limits, and one folder of one claim has one Job name", () => {
  const long = model(cpu, `${"a".repeat(200)}.${"b".repeat(50)}`);
  const own: CacheSettings = { ...defaults, cacheScope: "Model" };
  expect(cacheClaimName(long, own).length).toBeLessThanOrEqual(253);
  expect(cacheClaimName(long, own)).not.toBe(
    cacheClaimName(model(cpu, `${"a".repeat(200)}.${"b".repeat(49)}c`), own),
  );
  const volume = desiredVolume(long, own);
  const job = buildFetchJob({ model: long, volume, key: "k", attempt: 1 }, own);
  expect(job.metadata.name.length).toBeLessThanOrEqual(63);
  for (const value of Object.values(job.metadata.labels ?? {})) expect(value.length).toBeLessThanOrEqual(63);
  expect(fetchJobName(desiredVolume(model(cpu, "x"), defaults))).toBe(
    fetchJobName(desiredVolume(model(cpu, "y"), defaults)),
  );
  expect(fetchJobName(desiredVolume(model(cpu), defaults))).not.toBe(
    fetchJobName(desiredVolume(model({ ...cpu, source: "hf://org/other" }), defaults)),
  );
});

test("the key changes with the files, the Secret and the volume, and with nothing else", () => {
  const volume = desiredVolume(model(cpu), defaults);
  const key = downloadKey(model(cpu), volume, "1");
  expect(downloadKey(model({ ...cpu, resources: { cpu: 1 } }, "other"), volume, "1")).toBe(key);
  expect(downloadKey(model(cpu), volume, "2")).not.toBe(key);
  expect(downloadKey(model({ ...cpu, sha256: "0".repeat(64) }), volume, "1")).not.toBe(key);
  const secrets = ["a", "b"].map((name) => model({ ...cpu, sourceSecretRef: { name } }));
  for (const keyOf of [(of: Model) => downloadKey(of, volume, "1"), linkOf])
    expect(new Set([model(cpu), ...secrets].map(keyOf)).size).toBe(3);
});
