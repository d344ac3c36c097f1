/** Pods that download their weights: to which volume, as which user, and what they may remove there. */
import { expect, test } from "vitest";
import { modelSchema } from "../../../src/api/model.ts";
import { ephemeralWeights, weightsFilledByPods } from "./ephemeral.ts";
import { inputOf, type WorkloadOptions } from "./fixtures/workload-input.ts";
import { resolvePods } from "./resolve.ts";
import { buildWorkload } from "./workload.ts";

const cpu = { source: "hf://org/m/m.gguf", hardware: { accelerator: "cpu" } };
const cuda = { ...cpu, hardware: { accelerator: "cuda" } };
const fetch = {
  image: "registry.example/metalbridge:1",
  imagePullSecrets: [],
  cacheSize: "1Gi",
  allowNetworks: [],
  hfEndpoint: "https://huggingface.co",
  allowLoopback: false,
  allowPrivate: false,
  cacheAccessMode: "ReadWriteOnce" as const,
};
const filledByPods = (claimName: string) => ({
  phase: "Pending",
  reason: "DownloadedByPods",
  message: "",
  claimName,
  folder: "f",
  filledBy: "Pods" as const,
});

/** The pods of a service with the Model `m`, whose claim they fill. */
function filling(options: Partial<WorkloadOptions>) {
  return buildWorkload(
    inputOf({
      service: {},
      model: cpu,
      replicas: 1,
      settings: { fetch },
      status: { files: ["m.gguf"], cache: filledByPods("m-model-cache") },
      ...options,
    }),
  ).deployment.spec;
}

/** Weights of a further Model, with a claim of its own that pods fill. */
function filled(name: string, spec: object = {}) {
  const model = modelSchema.parse({
    metadata: { name, namespace: "team-a" },
    spec: { source: `hf://org/${name}/${name}.gguf`, ...spec },
    status: { files: [`${name}.gguf`], sizeBytes: 2 ** 30, cache: filledByPods(`${name}-model-cache`) },
  });
  return { onClaim: weightsFilledByPods(model), inPod: ephemeralWeights(model) };
}

test("a pod whose volume no second pod can mount stops before the next one starts", () => {
  const strategyWith = (cacheAccessMode: "ReadWriteOnce" | "ReadWriteOncePod") =>
    filling({ settings: { fetch: { ...fetch, cacheAccessMode } } }).strategy;
  expect(strategyWith("ReadWriteOncePod")).toEqual({ type: "Recreate" });
  expect(strategyWith("ReadWriteOnce")).toMatchObject({ type: "RollingUpdate" });
});

test("an init container makes room on a claim only where no other pod can have it mounted", () => {
  const makesRoom = (options: Partial<WorkloadOptions>) =>
    filling({ model: cuda, isOnlyService: true, ...options })
      .template.spec.initContainers?.flatMap(({ args = [] }) => args)
      .includes("--make-room");
  expect(makesRoom({})).toBe(true);
  expect(makesRoom({ isOnlyService: false })).toBe(false);
  expect(makesRoom({ replicas: 2 })).toBe(false);
  expect(makesRoom({ service: { rollout: { maxUnavailable: 0 } } })).toBe(false);
  expect(makesRoom({ model: cpu })).toBe(false);
});

test("pods depend on one claim that one node mounts: drafts and adapters of other claims are in the pod", () => {
  const [draft, adapter, second] = ["draft", "a", "b"].map((name) => filled(name).onClaim);
  if (draft === undefined || adapter === undefined || second === undefined) throw new Error("no weights");
  const { spec, metadata } = filling({ draftWeights: draft, adapterWeights: [adapter, second] }).template;
  expect(Object.keys(metadata?.labels ?? {}).filter((key) => key.includes("/mounts-"))).toHaveLength(1);
  expect(spec.affinity?.podAffinity).toMatchObject({
    requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: "kubernetes.io/hostname" }],
  });
  expect(spec.volumes?.filter((volume) => "persistentVolumeClaim" in volume)).toEqual([
    { name: "weights-0", persistentVolumeClaim: { claimName: "m-model-cache" } },
  ]);
  expect(spec.volumes).toContainEqual({ name: "cache", emptyDir: { sizeLimit: "4Gi" } });
  expect(spec.initContainers?.map(({ volumeMounts = [] }) => volumeMounts[0]?.name)).toEqual([
    ...["weights-0", "cache", "cache", "cache"],
  ]);
  const shared = { ...adapter, claimName: "m-model-cache" };
  const volumes = filling({ adapterWeights: [shared] }).template.spec.volumes ?? [];
  expect(volumes.map(({ name }) => name)).not.toContain("cache");
});

test("pods stay on the node of a volume of one node that a Job has filled, and fetch adapters on other such volumes", () => {
  const onVolume = (name: string) => {
    const cache = {
      phase: "Ready",
      file: "m.gguf",
      claimName: `${name}-model-cache`,
      folder: "f",
      singleNode: true,
    };
    const status = {
      phase: "Ready",
      format: "gguf",
      files: ["m.gguf"],
      cache: { reason: "", message: "", ...cache },
    };
    return modelSchema.parse({
      metadata: { name, namespace: "team-a" },
      spec: { source: `hf://org/${name}/m.gguf`, hardware: { accelerator: "cpu" } },
      status,
    });
  };
  const { service, settings } = inputOf({
    service: { loraAdapters: [{ modelRef: "a" }] },
    model: cpu,
    settings: { fetch },
  });
  const found = resolvePods({ service, model: onVolume("m"), loraModels: [onVolume("a")], settings });
  if (found.at !== "resolved") throw new Error(found.message);
  const { spec, metadata } = found.workload.deployment.spec.template;
  expect(Object.keys(metadata?.labels ?? {}).filter((key) => key.includes("/mounts-"))).toHaveLength(1);
  expect(spec.affinity?.podAffinity).toMatchObject({
    requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: "kubernetes.io/hostname" }],
  });
  expect(spec.volumes?.filter((volume) => "persistentVolumeClaim" in volume)).toEqual([
    { name: "weights-0", persistentVolumeClaim: { claimName: "m-model-cache" } },
  ]);
  expect(spec.initContainers?.map(({ volumeMounts = [] }) => volumeMounts[0]?.name)).toEqual(["cache"]);
});

test("two Models of one source in one pod are both downloaded, under different names, with room for both", () => {
  const source = "hf://org/m";
  const [main, draft] = ["Q8_0", "Q4_0"].map((quantization) => filled("m", { source, quantization }).inPod);
  if (main === undefined || draft === undefined) throw new Error("no weights");
  const { spec } = filling({
    weights: main,
    draftWeights: draft,
    status: {},
    service: { speculativeDecoding: { type: "draft", draftModelRef: "draft" } },
  }).template;
  const links = spec.initContainers?.map(({ args = [] }) => args.find((one) => one.startsWith("--link=")));
  expect(links).toEqual([main, draft].map(({ fetched }) => `--link=${fetched?.link}`));
  expect(new Set(links).size).toBe(2);
  expect(spec.volumes).toContainEqual({ name: "cache", emptyDir: { sizeLimit: "3Gi" } });
  const { args = [] } = spec.containers[0] ?? {};
  expect(args).toEqual(expect.arrayContaining([`/models/${main.file}`, `/draft/${draft.file}`]));
});

test("the init container writes as the user of its pod, whose folders earlier pods have made", () => {
  for (const podSecurityContext of [
    {},
    { runAsUser: 0, runAsGroup: 0, fsGroup: 1000 },
    { runAsUser: 1000 },
  ]) {
    const { spec } = filling({ service: { podSecurityContext } }).template;
    expect(spec.securityContext).toMatchObject({ runAsUser: 65_532, ...podSecurityContext });
    const [{ securityContext = {} } = {}] = spec.initContainers ?? [];
    expect(securityContext).toMatchObject({ readOnlyRootFilesystem: true });
    expect(Object.keys(securityContext).filter((key) => key.startsWith("runAs"))).toEqual([]);
  }
});

test("a pod whose own volume is smaller than the weights is refused: the kubelet would evict it again and again", () => {
  const build = (ephemeralStorage: string) =>
    filling({
      service: { modelCache: { persistence: "Ephemeral" }, resources: { ephemeralStorage } },
      status: { files: ["m.gguf"], sizeBytes: 2 ** 30 },
      fetched: true,
    });
  expect(() => build("1000Mi")).toThrow(
    /downloads 1 GiB of weights, and .*ephemeralStorage is 1000Mi: raise it/,
  );
  expect(build("2Gi").template.spec.volumes).toContainEqual({
    name: "cache",
    emptyDir: { sizeLimit: "2Gi" },
  });
});

test("no pod is made for a Model's claim while its service names another one", () => {
  const { service, model, settings } = inputOf({
    service: { modelCache: { claimName: "mine" } },
    model: cpu,
    settings: { fetch },
    status: { phase: "Ready", format: "gguf", files: ["m.gguf"], cache: filledByPods("m-model-cache") },
  });
  expect(resolvePods({ service, model, settings, loraModels: [] })).toMatchObject({
    at: "blocked",
    code: "ModelNotReady",
    message: expect.stringMatching(/not on claim mine yet$/),
  });
});

test.each<[string, object, object, string, RegExp]>([
  [
    "a file on a host",
    { source: "file:///models/m.gguf" },
    { phase: "Pending", reason: "ReadByHost" },
    "SourceNotSupported",
    /^pods cannot fetch file:\/\/ sources, and/,
  ],
  [
    "a Model that hosts use and pods cannot",
    {},
    {
      phase: "Ready",
      conditions: [
        {
          type: "Degraded",
          status: "True",
          reason: "ModelCacheAmbiguous",
          message: "two claims",
          lastTransitionTime: "2026-01-02T03:04:05Z",
        },
      ],
    },
    "ModelNotReady",
    /not on its volume yet: two claims$/,
  ],
])("no pod is made for %s", (_, spec, status, code, message) => {
  const { service, model, settings } = inputOf({
    service: {},
    model: { ...cpu, ...spec },
    settings: { fetch },
    status,
  });
  expect(resolvePods({ service, model, settings, loraModels: [] })).toMatchObject({
    at: "blocked",
    code,
    message: expect.stringMatching(message),
  });
});
