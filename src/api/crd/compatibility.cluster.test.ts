/** A manifest written for LLMKube moves over by changing the group: every field is known, strictly validated. */
import { expect, test } from "vitest";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { type Manifest, manifest } from "../../../test/fixtures/manifests.ts";

const model: Manifest = {
  source: "https://huggingface.co/org/repo/resolve/main/model-Q4_K_M.gguf",
  sha256: "0123456789ABCDEF".repeat(4),
  sourceSecretRef: { name: "hf" },
  refreshPolicy: "OnChange",
  prefetch: true,
  prefetchTolerations: [{ key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" }],
  format: "gguf",
  quantization: "Q4_K_M",
  hardware: {
    accelerator: "cuda",
    gpu: {
      enabled: true,
      count: 2,
      memory: "24Gi",
      vendor: "nvidia",
      resourceName: "nvidia.com/mig-1g.10gb",
      tolerationKey: "nvidia.com/gpu",
      layers: -1,
      sharding: { strategy: "layer", layerSplit: ["0-19", "20-39"] },
    },
    memoryFraction: 0.8,
  },
  resources: { cpu: "2", memory: "4Gi" },
  files: ["model-Q4_K_M.gguf"],
  mmproj: "mmproj-f16.gguf",
};

const llamacpp: Manifest = {
  modelRef: "llama-3.1-8b",
  runtime: "llamacpp",
  mode: "chat",
  replicas: 2,
  suspend: false,
  contextSize: 32768,
  ropeScaling: { type: "yarn", factor: "4.0", originalContext: 8192 },
  parallelSlots: 4,
  flashAttention: true,
  jinja: true,
  cacheTypeK: "q8_0",
  cacheTypeV: "q8_0",
  cacheTypeCustomK: "tbq3_0",
  cacheTypeCustomV: "tbq3_0",
  moeCPUOffload: false,
  moeCPULayers: 0,
  noKvOffload: false,
  noWarmup: true,
  reasoningBudget: 0,
  reasoningBudgetMessage: "stop",
  metadataOverrides: ["tokenizer.ggml.add_bos_token=bool:false"],
  tensorOverrides: ["\\.ffn_.*_exps\\.=CPU"],
  batchSize: 2048,
  uBatchSize: 512,
  extraArgs: ["--threads", "8"],
  turboQuantBits: 8,
  pagedSSDCacheDir: "/var/cache/omlx",
  hotCacheMaxSize: "8GB",
  pagedSSDCacheMaxSize: "100GB",
  priority: "high",
  evictionProtection: true,
  revisionHistoryLimit: 3,
  autoscaling: {
    minReplicas: 1,
    maxReplicas: 4,
    metrics: [
      { type: "Pods", name: "llamacpp:requests_processing", targetAverageValue: "2" },
      { type: "Resource", name: "cpu", targetAverageUtilization: 80 },
    ],
  },
  image: "registry.example/llama.cpp:server",
  endpoint: {
    port: 8080,
    path: "/v1/chat/completions",
    type: "NodePort",
    nodePort: 30080,
    gateway: { enabled: true, gatewayRef: { name: "gw", namespace: "infra" }, modelName: "llama" },
  },
  resources: {
    gpu: 1,
    cpu: "2000m",
    memory: "4Gi",
    hostMemory: "64Gi",
    ephemeralStorage: "20Gi",
    gpuMemory: "16Gi",
    gpuSharing: { mode: "shared", memoryLimitGiB: 8 },
  },
  tolerations: [{ key: "nvidia.com/gpu", operator: "Exists", effect: "NoExecute", tolerationSeconds: 60 }],
  nodeSelector: { "example.com/pool": "gpu" },
  affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [] } },
  topologySpreadConstraints: [{ maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "DoNotSchedule" }],
  podLabels: { team: "a" },
  podAnnotations: { note: "b" },
  runtimeClassName: "nvidia",
  speculativeDecoding: { type: "draft", draftModelRef: "draft", nDraftMax: 8, pMin: 0.75 },
  bindAddress: "::",
  containerPort: 8080,
  command: ["/server"],
  args: ["--help"],
  env: [{ name: "HF_TOKEN", valueFrom: { secretKeyRef: { name: "hf", key: "HF_TOKEN" } } }],
  extraVolumes: [{ name: "shm", emptyDir: { medium: "Memory" } }],
  extraVolumeMounts: [{ name: "shm", mountPath: "/dev/shm" }],
  probeOverrides: { startup: { httpGet: { path: "/health", port: 8080 }, failureThreshold: 180 } },
  skipModelInit: true,
  modelCache: { persistence: "Cached", claimName: "models" },
  imagePullSecrets: [{ name: "regcred" }],
  priorityClassName: "gpu-high",
  podSecurityContext: { fsGroup: 1000 },
  securityContext: { readOnlyRootFilesystem: true },
  disruption: { protectStartup: true, protectAlways: false },
  rolloutPolicy: { waitForIdle: true, idleTimeoutSeconds: 600, force: false },
  slo: { objective: "99.9", window: "28d", indicator: "latency", latencyThreshold: "500ms", name: "fast" },
  maxPodLifetimeSeconds: 86400,
  maxPodLifetimeIdleTimeoutSeconds: 60,
};

const runtimes: Readonly<Record<string, Manifest>> = {
  vllm: {
    vllmConfig: {
      tensorParallelSize: 2,
      maxModelLen: 8192,
      quantization: "fp8",
      dtype: "bfloat16",
      kvCacheDtype: "fp8_e5m2",
      kvCacheCustomDtype: "x",
      enablePrefixCaching: true,
      enableChunkedPrefill: true,
      maxNumBatchedTokens: 512,
      attentionBackend: "FLASHINFER",
      speculative: { enabled: true, model: "org/draft", numSpeculativeTokens: 4 },
      enableExpertParallel: false,
      hfTokenSecretRef: { name: "hf", key: "token" },
      cpuOffloadGB: 0,
      gpuMemoryUtilization: 0.9,
    },
  },
  tgi: {
    tgiConfig: {
      quantize: "awq",
      maxInputLength: 2048,
      maxTotalTokens: 4096,
      dtype: "float16",
      hfTokenSecretRef: { name: "hf" },
    },
  },
  sglang: { sglangConfig: { tensorParallelSize: 2 } },
  personaplex: {
    personaPlexConfig: { quantize4Bit: true, cpuOffload: true, hfTokenSecretRef: { name: "hf" } },
  },
};

async function accept(kind: "Model" | "InferenceService", spec: Manifest): Promise<Manifest> {
  const object = { ...manifest(kind, "moved", "default"), spec };
  return (await sharedCluster().objects.create(object, { dryRun: true })).spec;
}

test("every field of a Model", async () => {
  expect(await accept("Model", model)).toMatchObject(model);
});

test("every field of an InferenceService, nothing pruned inside Kubernetes' own types", async () => {
  expect(await accept("InferenceService", llamacpp)).toMatchObject(llamacpp);
});

test.for(Object.entries(runtimes))("the settings of runtime %s", async ([runtime, config]) => {
  const spec = { modelRef: "m", runtime, ...config };
  expect(await accept("InferenceService", spec)).toMatchObject(spec);
});
