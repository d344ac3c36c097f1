/** What the real API server makes of our kinds: defaults, explain, scale, selectable fields, immutability, columns. */
import { expect, test } from "vitest";
import { listOf } from "../../../test/bed/kubectl.ts";
import { must } from "../../../test/bed/must.ts";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { type Manifest, type ManifestKind, manifest, withFields } from "../../../test/fixtures/manifests.ts";
import { connect } from "../../kube/client/connect.ts";
import { createClient } from "../../kube/client/create-client.ts";
import { manifestYaml } from "../../kube/manifest-yaml.ts";
import { clusterAccess } from "../access/cluster.ts";
import { hostSchema } from "../host.ts";
import { type InferenceReplica, inferenceReplicaSchema } from "../inference-replica.ts";
import { inferenceServiceSchema } from "../inference-service/index.ts";
import { INFERENCE_REPLICAS } from "../kinds.ts";
import { modelSchema } from "../model.ts";
import { customResourceDefinitions } from "./definitions.ts";

const accepted = (object: Manifest): Promise<{ spec: Record<string, unknown> }> =>
  sharedCluster().objects.create(object, { dryRun: true });

test("an InferenceService of one field gets every default", async () => {
  const { spec } = await accepted(manifest("InferenceService", "chat", "default"));
  expect(spec).toEqual({
    modelRef: "tiny",
    replicas: 1,
    suspend: false,
    priority: "normal",
    evictionProtection: false,
    hostLostSeconds: 300,
    placement: { spread: "Preferred", allowEviction: true },
    rollout: { drainSeconds: 30 },
    endpoint: { port: 8080, path: "/v1/chat/completions", type: "ClusterIP" },
  });
});

test("a Model, a Host and a replica get theirs", async () => {
  expect((await accepted(manifest("Model", "tiny", "default"))).spec).toMatchObject({
    refreshPolicy: "IfNotPresent",
    prefetch: false,
  });
  expect((await accepted(withFields(manifest("Host", "mac-1"), { spec: undefined }))).spec).toEqual({
    addresses: [],
    unschedulable: false,
    drain: false,
    memory: { evictionEnabled: true },
  });
  expect((await accepted(manifest("InferenceReplica", "chat-0-abc", "default"))).spec).toMatchObject({
    drainSeconds: 30,
    hostLostSeconds: 300,
    priority: "normal",
    probes: { timeoutSeconds: 5, failureThreshold: 3 },
    memory: { claimBytes: 1_000_000, kvBytes: 0 },
    template: { model: { files: [], refreshPolicy: "IfNotPresent" } },
  });
});

const schemas = {
  Model: modelSchema,
  InferenceService: inferenceServiceSchema,
  InferenceReplica: inferenceReplicaSchema,
  Host: hostSchema,
};

type Good = readonly [kind: ManifestKind, title: string, fields: Record<string, unknown>];

const good: readonly Good[] = [
  ["Model", "a bare repository", { "spec.source": "org/Repo-1.5_x" }],
  ["Model", "a revision", { "spec.source": "hf://org/repo/dir/a.gguf@main" }],
  ["Model", "an absolute path", { "spec.source": "/Volumes/models/a.gguf" }],
  ["Model", "a GGUF of the Ollama library", { "spec.source": "ollama://qwen3:4b", "spec.format": "gguf" }],
  ["Model", "an artifact of a registry", { "spec.source": "oci://ghcr.io/org/tiny:v1" }],
  ["Model", "an ollama source", { "spec.source": "ollama://qwen3:4b", "spec.format": "ollama" }],
  ["Model", "a bucket", { "spec.source": "oss://bucket/key" }],
  ["Model", "a budget as a number", { "spec.hardware.memoryBudget": 8_589_934_592 }],
  ["Model", "a whole fraction", { "spec.hardware.memoryFraction": 1 }],
  ["Model", "split files", { "spec.files": ["q4/m-00001-of-00002.gguf", "q4/m-00002-of-00002.gguf"] }],
  [
    "Model",
    "flavors for hosts and pods",
    {
      "spec.flavors": [
        { name: "studio", hostSelector: { matchLabels: { class: "studio" } } },
        { name: "l40s", nodeSelector: { gpu: "l40s" }, limits: { "nvidia.com/gpu": 1 } },
        {
          name: "a10",
          limits: { "nvidia.com/gpu": "2", memory: "64Gi" },
          deviceClass: "gpu.nvidia.com",
          params: { tensorParallelSize: 2, image: "engine:1", args: ["--x"] },
        },
        { name: "any-l40s", params: { instanceType: "g6e.xlarge" } },
        {
          name: "l40s-twice",
          nodeSelector: { "node.kubernetes.io/instance-type": "g6e.xlarge" },
          params: { instanceType: "g6e.xlarge" },
        },
      ],
    },
  ],
  [
    "Model",
    "the fields of an OpenModel of llmaz",
    {
      "spec.source": "hf://Qwen/Qwen2-0.5B-Instruct@main",
      "spec.familyName": "Qwen2.0_x",
      "spec.ownedBy": "Alibaba, Inc.",
      "spec.createdAt": "2024-06-07T00:00:00Z",
      "spec.files": ["*.safetensors", "*.json"],
      "spec.ignorePatterns": ["original/", "*.pth"],
    },
  ],
  ["Model", "a name with a dot", { "metadata.name": "llama-3.1-8b" }],
  ["InferenceService", "the longest name", { "metadata.name": `s${"x".repeat(49)}` }],
  [
    "InferenceService",
    "as few replicas as at most, to zero with KEDA",
    {
      "spec.autoscaling": {
        engine: "KEDA",
        minReplicas: 0,
        maxReplicas: 1,
        triggers: [{ type: "cron", metadata: { start: "0 8 * * *" }, authenticationRef: { name: "a" } }],
        behavior: { scaleDown: { stabilizationWindowSeconds: 0 } },
      },
    },
  ],
  [
    "InferenceService",
    "an HPA that may not scale, with metrics in both forms",
    {
      "spec.autoscaling": {
        minReplicas: 2,
        maxReplicas: 2,
        metrics: [
          { type: "Resource", name: "cpu", targetAverageUtilization: 80 },
          {
            type: "External",
            external: { metric: { name: "queue" }, target: { type: "Value", value: "3" } },
          },
        ],
      },
    },
  ],
  ["InferenceService", "a node port", { "spec.endpoint": { type: "NodePort", nodePort: 30080 } }],
  [
    "InferenceService",
    "a draft model",
    { "spec.speculativeDecoding": { type: "draft", draftModelRef: "d" } },
  ],
  [
    "InferenceService",
    "a draft model in the field of older manifests",
    { "spec.speculativeDecoding": { type: "draft", draftModel: "Draft_Q4.gguf", nDraftMax: 8 } },
  ],
  [
    "InferenceService",
    "a draft model in both fields",
    { "spec.speculativeDecoding": { type: "draft", draftModelRef: "d", draftModel: "d" } },
  ],
  [
    "InferenceService",
    "a partition",
    { "spec.resources.gpuSharing": { mode: "partitioned", profile: "1g.10gb" } },
  ],
  [
    "InferenceService",
    "rope scaling",
    { "spec.ropeScaling": { type: "yarn", factor: "4.0", originalContext: 32768 } },
  ],
  [
    "InferenceService",
    "LoRA adapters",
    { "spec.loraAdapters": [{ modelRef: "style" }, { modelRef: "tone", scale: 0.5 }] },
  ],
  [
    "InferenceService",
    "a group",
    { "spec.group": { size: 4, topologyKey: "example.com/rack" }, "spec.placement": { on: "Pods" } },
  ],
  [
    "InferenceService",
    "a group with a key for ssh",
    { "spec.runtime": "tensorrt-llm", "spec.group": { size: 2, sshSecretRef: { name: "key" } } },
  ],
  ["InferenceService", "some flavors of its Model", { "spec.flavors": ["a10", "studio"] }],
  [
    "InferenceService",
    "Models with roles",
    {
      "spec.modelRef": undefined,
      "spec.modelRefs": [
        { name: "m" },
        { name: "d", role: "draft" },
        { name: "p", role: "projector" },
        { name: "a", role: "lora" },
        { name: "b", role: "lora" },
      ],
    },
  ],
  [
    "InferenceService",
    "a draft with a limit, also in the older field",
    {
      "spec.modelRef": undefined,
      "spec.modelRefs": [
        { name: "m", role: "main" },
        { name: "d", role: "draft" },
      ],
      "spec.speculativeDecoding": { type: "draft", draftModel: "d", nDraftMax: 8 },
    },
  ],
  ["InferenceService", "pooling", { "spec.mode": "embedding", "spec.pooling": "last" }],
  ["InferenceService", "thinking turned off", { "spec.reasoningBudget": 0 }],
  [
    "InferenceService",
    "plain Kubernetes types",
    { "spec.affinity": { nodeAffinity: {} }, "spec.env": [{ name: "A", value: "b" }] },
  ],
  [
    "InferenceService",
    "quantities",
    {
      "spec.resources": {
        cpu: 4,
        memory: "16Gi",
        hostMemory: "1.5G",
        ephemeralStorage: "1e9",
        limits: { cpu: "4000m", memory: 17179869184 },
      },
    },
  ],
  ["InferenceService", "a rollout in percent", { "spec.rollout": { maxUnavailable: "0%", maxSurge: "25%" } }],
  ["InferenceService", "one limit of a rollout", { "spec.rollout": { maxSurge: "0%" } }],
  ["InferenceReplica", "the longest name", { "metadata.name": `r${"x".repeat(62)}` }],
  [
    "Host",
    "addresses and ranges",
    { "spec.addresses": ["192.168.1.20", "10.0.0.0/8", "fd00::1", "fd00::/64"] },
  ],
  [
    "Host",
    "budgets",
    { "spec.memory": { systemReserve: "8Gi", gpuBudget: 68719476736 }, "spec.disk.quota": "500G" },
  ],
  ["Host", "the longest name", { "metadata.name": `h${"x".repeat(62)}` }],
];

test.concurrent.for(good)("a %s is accepted: %s", async ([kind, , fields]) => {
  const object = withFields(manifest(kind, "good", kind === "Host" ? undefined : "default"), fields);
  const { spec } = await accepted(object);
  // The schemas that agent and controller read with must say the same as the API server.
  expect(schemas[kind].parse(object).spec).toEqual(spec);
});

test("kubectl explain describes a field with an example or its limits", async () => {
  const explained = async (field: string) =>
    (await sharedCluster().kubectl(["explain", field])).replace(/\s+/g, " ");
  expect(await explained("isvc.spec.contextSize")).toContain(
    "with 8192 tokens and 4 slots, a request can use 2048",
  );
  expect(await explained("irep.spec.template")).toContain("Immutable: a change creates a new replica");
  expect(await explained("mbhost.spec.memory.systemReserve")).toContain("reserved for the operating system");
  expect(await explained("mdl.spec.source")).toContain("hf://org/repo");
});

test("kubectl apply reports no change for a file whose lists leave out defaults", async () => {
  const { kubectl, namespace } = sharedCluster();
  await using own = await namespace();
  const lists = {
    "spec.modelRef": undefined,
    "spec.modelRefs": [{ name: "m" }],
    "spec.loraAdapters": [{ modelRef: "style" }],
    "spec.idle": { afterMinutes: 60, keepWarm: [{ start: "08:00", end: "18:00" }] },
  };
  const input = listOf(withFields(manifest("InferenceService", "chat", own.name), lists));
  expect(await kubectl(["apply", "-f", "-"], input)).toContain("created");
  expect(await kubectl(["apply", "-f", "-"], input)).toContain("unchanged");
});

test("kubectl scale works, and the scale subresource carries the selector", async () => {
  const { kubectl, objects, namespace } = sharedCluster();
  await using own = await namespace();
  const scale = (replicas: number) =>
    kubectl(["-n", own.name, "scale", "isvc", "chat", `--replicas=${replicas}`]);
  await objects.create(manifest("InferenceService", "chat", own.name));
  await scale(3);
  const status = { replicas: 2, selector: "metalbridge.dev/service=chat" };
  await objects.patch(own.name, "isvc/chat", { status }, "status");
  const path = `/apis/metalbridge.dev/v1alpha1/namespaces/${own.name}/inferenceservices/chat/scale`;
  expect(JSON.parse(await objects.raw(path))).toMatchObject({ spec: { replicas: 3 }, status });
  await expect(scale(101)).rejects.toThrow(/spec\.replicas/);
});

test("a host's replicas can be selected, and their template cannot be changed or taken away", async () => {
  const { objects, namespace } = sharedCluster();
  await using own = await namespace();
  await objects.create(manifest("InferenceReplica", "chat-0-a", own.name));
  const other = manifest("InferenceReplica", "chat-1-b", own.name);
  await objects.create(withFields(other, { "spec.template.hostName": "mac-2" }));
  const path = `/apis/metalbridge.dev/v1alpha1/namespaces/${own.name}/inferencereplicas`;
  const selected = JSON.parse(await objects.raw(`${path}?fieldSelector=spec.template.hostName%3Dmac-2`));
  expect(selected.items).toMatchObject([{ metadata: { name: "chat-1-b" } }]);
  const patch = (change: object) => objects.patch(own.name, "irep/chat-0-a", change);
  await expect(patch({ spec: { template: { hostName: "mac-2" } } })).rejects.toThrow(
    /spec\.template is immutable/,
  );
  await expect(patch({ spec: { template: null } })).rejects.toThrow(/spec\.template: Required/);
  await expect(patch({ spec: null })).rejects.toThrow(/spec: Required/);
  expect(await patch({ spec: { drainSeconds: 5, priority: "low" } })).toMatchObject({
    spec: { drainSeconds: 5, priority: "low" },
  });
});

test("kubectl get shows the state of a replica", async () => {
  const { kubectl, objects, namespace } = sharedCluster();
  await using own = await namespace();
  await objects.create(manifest("InferenceReplica", "chat-0-a", own.name));
  const condition = {
    type: "HostReachable",
    status: "False",
    reason: "LeaseExpired",
    message: "silent",
    lastTransitionTime: "2026-01-01T00:00:00Z",
  };
  const status = { phase: "Ready", reason: "Serving", port: 21000, conditions: [condition] };
  await objects.patch(own.name, "irep/chat-0-a", { status }, "status");
  const [head = "", row = ""] = (await kubectl(["-n", own.name, "get", "irep"])).split("\n");
  expect(head.split(/\s+/)).toEqual(["NAME", "PHASE", "REASON", "HOST", "HOSTREACHABLE", "PORT", "AGE"]);
  expect(row.split(/\s+/).slice(0, 6)).toEqual(["chat-0-a", "Ready", "Serving", "mac-1", "False", "21000"]);
  expect(await kubectl(["-n", own.name, "get", "metalbridge", "-o", "name"])).toContain("chat-0-a");
});

test("kubectl get shows the state of a service", async () => {
  const { kubectl, objects, namespace } = sharedCluster();
  await using own = await namespace();
  await objects.create(manifest("InferenceService", "chat", own.name));
  const status = {
    phase: "WaitingForCapacity",
    reason: "InsufficientMemory",
    ready: "0/1",
    model: { name: "tiny" },
    runtime: "llamacpp",
    endpoint: "http://chat:8080/v1/chat/completions",
    queuePosition: 1,
    waitingFor: "memory: 4.0 GiB",
  };
  await objects.patch(own.name, "isvc/chat", { status }, "status");
  const [head = "", row = ""] = (await kubectl(["-n", own.name, "get", "isvc", "-o", "wide"])).split("\n");
  expect(head.split(/\s{2,}|\s+$/)).toEqual(
    expect.arrayContaining(["PHASE", "READY", "MODEL", "RUNTIME", "ENDPOINT"]),
  );
  expect(row).toMatch(
    /chat\s+WaitingForCapacity\s+0\/1\s+tiny\s+llamacpp\s+http:\/\/chat:8080\S+\s+InsufficientMemory\s+1/,
  );
});

test("agent and controller keep their own conditions on one object", async () => {
  const { kubeconfig, objects, namespace } = sharedCluster();
  await using own = await namespace();
  const connection = await connect({ kubeconfigPath: kubeconfig });
  const client = createClient(connection);
  const { spec: _spec, ...object } = manifest("InferenceReplica", "chat-0-a", own.name);
  await objects.create(manifest("InferenceReplica", "chat-0-a", own.name));
  const apply = async (manager: string, type: string, status: string) => {
    const lastTransitionTime = "2026-01-01T00:00:00Z";
    const condition = { type, status, reason: "Test", message: "", lastTransitionTime };
    const applied = { ...object, status: { conditions: [condition] } } as unknown as InferenceReplica;
    must(await client.apply(INFERENCE_REPLICAS, applied, { manager, subresource: "status" }));
  };
  await apply("agent", "Ready", "True");
  await apply("controller", "HostReachable", "True");
  await apply("agent", "Ready", "False");
  const { conditions } = (await objects.get(own.name, "irep/chat-0-a")).status;
  const found = conditions.map(({ type, status }: Record<string, string>) => `${type}=${status}`);
  expect(found.sort()).toEqual(["HostReachable=True", "Ready=False"]);
  connection.close();
});

test("kubectl get shows the state of a host", async () => {
  const { kubectl, objects } = sharedCluster();
  const name = "story-of-a-host";
  await objects.create(manifest("Host", name));
  try {
    const status = { info: { chip: "Apple M4 Max" }, memory: { total: "128 GiB", claimed: "37.2 GiB" } };
    await objects.patch("", `mbhost/${name}`, { status }, "status");
    const [head = "", row = ""] = (await kubectl(["get", "mbhost", name])).split("\n");
    expect(head).toMatch(/NAME\s+READY\s+REACHABLE\s+CHIP\s+MEMORY\s+CLAIMED\s+CORDONED\s+AGE/);
    expect(row).toMatch(/Apple M4 Max\s+128 GiB\s+37\.2 GiB\s+false/);
  } finally {
    await objects.remove("", `mbhost/${name}`);
  }
});

test("metalbridge crds | kubectl apply --server-side works after metalbridge up, and up works after it", async () => {
  const cluster = sharedCluster();
  const objects = [...customResourceDefinitions(), ...clusterAccess()];
  const input = manifestYaml(objects);
  expect(input).not.toContain("x-kubernetes-validations: []");
  // metalbridge up has applied the same as metalbridge-up; fields with equal values are owned together.
  const applied = await cluster.kubectl(["apply", "--server-side", "--dry-run=server", "-f", "-"], { input });
  expect(applied.match(/serverside-applied/g)).toHaveLength(objects.length);
});
