/** Bad InferenceServices: the real API server refuses each with a message that names the field. */
import { expect, test } from "vitest";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { manifest, withFields } from "../../../test/fixtures/manifests.ts";

type Case = readonly [title: string, fields: Record<string, unknown>, says: RegExp];

const cases: readonly Case[] = [
  ["unknown field", { "spec.contextsize": 4096 }, /unknown field "spec\.contextsize"/],
  ["unknown nested field", { "spec.endpoint.prot": 80 }, /unknown field "spec\.endpoint\.prot"/],
  [
    "what YAML makes of placement.on without quotes",
    { "spec.placement": { true: "Auto" } },
    /spec\.placement\.true: .*YAML reads an unquoted "on" as true: write "on": Auto, with the quotes/,
  ],
  ["no model", { "spec.modelRef": undefined }, /set exactly one of spec\.modelRef and spec\.modelRefs/],
  ["no spec", { spec: undefined }, /spec: Required/],
  ["modelRef that is no name", { "spec.modelRef": "My Model" }, /spec\.modelRef/],
  ["runtime that does not exist", { "spec.runtime": "exllama" }, /spec\.runtime: Unsupported value/],
  ["mode that does not exist", { "spec.mode": "speech" }, /spec\.mode: Unsupported value/],
  ["replicas of a wrong type", { "spec.replicas": "two" }, /spec\.replicas/],
  ["negative replicas", { "spec.replicas": -1 }, /spec\.replicas/],
  ["too many replicas", { "spec.replicas": 101 }, /spec\.replicas/],
  ["priority that does not exist", { "spec.priority": "urgent" }, /spec\.priority: Unsupported value/],
  ["context too small", { "spec.contextSize": 127 }, /spec\.contextSize/],
  ["context too large", { "spec.contextSize": 2_097_153 }, /spec\.contextSize/],
  [
    "context too small for its slots",
    { "spec.contextSize": 512, "spec.parallelSlots": 64 },
    /spec\.contextSize.*parallelSlots/,
  ],
  ["no slots", { "spec.parallelSlots": 0 }, /spec\.parallelSlots/],
  ["too many slots", { "spec.parallelSlots": 65 }, /spec\.parallelSlots/],
  ["cache type that does not exist", { "spec.cacheTypeK": "q3_0" }, /spec\.cacheTypeK: Unsupported value/],
  ["cache type with a space", { "spec.cacheTypeCustomV": "q8 0" }, /spec\.cacheTypeCustomV/],
  [
    "quantized values without flash attention",
    { "spec.cacheTypeV": "q8_0", "spec.flashAttention": false },
    /spec\.cacheTypeV.*flash attention/,
  ],
  ["flashAttention as a word", { "spec.flashAttention": "auto" }, /spec\.flashAttention/],
  ["batch too large", { "spec.batchSize": 16_385 }, /spec\.batchSize/],
  [
    "micro batch above batch",
    { "spec.batchSize": 256, "spec.uBatchSize": 512 },
    /spec\.uBatchSize.*spec\.batchSize/,
  ],
  ["micro batch above the default batch", { "spec.uBatchSize": 4096 }, /spec\.uBatchSize/],
  ["negative prompt cache", { "spec.promptCacheMiB": -1 }, /spec\.promptCacheMiB/],
  [
    "prompt cache for embeddings",
    { "spec.mode": "embedding", "spec.promptCacheMiB": 64 },
    /spec\.promptCacheMiB/,
  ],
  [
    "rope scaling without a type",
    { "spec.ropeScaling": { factor: "2" } },
    /spec\.ropeScaling\.type: Required/,
  ],
  [
    "rope factor as a number",
    { "spec.ropeScaling": { type: "yarn", factor: 2 } },
    /spec\.ropeScaling\.factor/,
  ],
  [
    "rope factor zero",
    { "spec.ropeScaling": { type: "yarn", factor: "0.0" } },
    /ropeScaling\.factor must be greater than 0/,
  ],
  [
    "original context with linear",
    { "spec.ropeScaling": { type: "linear", originalContext: 4096 } },
    /ropeScaling\.originalContext/,
  ],
  ["negative reasoning budget", { "spec.reasoningBudget": -1 }, /spec\.reasoningBudget/],
  [
    "reasoning message without budget",
    { "spec.reasoningBudgetMessage": "enough" },
    /spec\.reasoningBudgetMessage needs spec\.reasoningBudget/,
  ],
  ["oMLX bits that do not exist", { "spec.turboQuantBits": 4 }, /spec\.turboQuantBits: Unsupported value/],
  [
    "extraArgs of 33 KiB",
    { "spec.extraArgs": Array.from({ length: 9 }, () => "x".repeat(3_700)) },
    /extraArgs: at most 32768 characters together/,
  ],
  ["extraArgs as a text", { "spec.extraArgs": "--verbose" }, /spec\.extraArgs/],
  ["pooling for chat", { "spec.pooling": "mean" }, /spec\.pooling needs spec\.mode embedding/],
  ["pooling none", { "spec.mode": "embedding", "spec.pooling": "none" }, /spec\.pooling: Unsupported value/],
  [
    "chat template without Jinja",
    { "spec.chatTemplate": "{{ x }}", "spec.jinja": false },
    /spec\.chatTemplate needs Jinja/,
  ],
  [
    "LoRA adapter without a Model",
    { "spec.loraAdapters": [{ scale: 1 }] },
    /loraAdapters\[0\]\.modelRef: Required/,
  ],
  [
    "LoRA scale that is no strength",
    { "spec.loraAdapters": [{ modelRef: "style", scale: 100 }] },
    /loraAdapters\[0\]\.scale/,
  ],
  [
    "draft type without draft",
    { "spec.speculativeDecoding": { type: "draft" } },
    /speculativeDecoding.*draftModelRef/,
  ],
  [
    "draft without a draft type",
    { "spec.speculativeDecoding": { type: "ngram-simple", draftModelRef: "d" } },
    /speculativeDecoding\.draftModelRef/,
  ],
  [
    "two names of a draft",
    { "spec.speculativeDecoding": { type: "draft", draftModelRef: "d", draftModel: "e" } },
    /draftModel names another Model than draftModelRef or role draft/,
  ],
  [
    "older name of a draft without a draft type",
    { "spec.speculativeDecoding": { type: "mtp", draftModel: "d" } },
    /draftModel and role draft in spec\.modelRefs go only with/,
  ],
  [
    "older name of a draft that is the served model",
    { "spec.modelRef": "m", "spec.speculativeDecoding": { type: "draft", draftModel: "m" } },
    /draftModel must name another Model than the service serves/,
  ],
  [
    "draft that is the served model",
    { "spec.modelRef": "m", "spec.speculativeDecoding": { type: "draft", draftModelRef: "m" } },
    /draftModelRef must name another Model than the service serves/,
  ],
  [
    "speculative probability above 1",
    { "spec.speculativeDecoding": { type: "mtp", pMin: 1.5 } },
    /speculativeDecoding\.pMin/,
  ],
  [
    "speculation for embeddings",
    { "spec.mode": "embedding", "spec.speculativeDecoding": { type: "mtp" } },
    /spec\.speculativeDecoding needs spec\.mode chat/,
  ],
  ["port 0", { "spec.endpoint.port": 0 }, /spec\.endpoint\.port/],
  ["path without slash", { "spec.endpoint.path": "v1" }, /spec\.endpoint\.path/],
  [
    "nodePort without NodePort",
    { "spec.endpoint.nodePort": 30080 },
    /endpoint\.nodePort needs endpoint\.type NodePort/,
  ],
  [
    "nodePort out of range",
    { "spec.endpoint": { type: "NodePort", nodePort: 8080 } },
    /spec\.endpoint\.nodePort/,
  ],
  ["negative drain", { "spec.rollout.drainSeconds": -1 }, /spec\.rollout\.drainSeconds/],
  ["a drain of a year", { "spec.rollout.drainSeconds": 31_536_000 }, /spec\.rollout\.drainSeconds/],
  ["negative surge", { "spec.rollout.maxSurge": -1 }, /spec\.rollout\.maxSurge/],
  ["negative surge in percent", { "spec.rollout.maxSurge": "-5%" }, /spec\.rollout\.maxSurge.*%/],
  ["surge without a number", { "spec.rollout.maxSurge": "abc" }, /spec\.rollout\.maxSurge.*%/],
  ["surge as a number in quotes", { "spec.rollout.maxSurge": "2" }, /spec\.rollout\.maxSurge.*%/],
  ["more missing than there are", { "spec.rollout.maxUnavailable": "101%" }, /spec\.rollout\.maxUnavailable/],
  ["surge beyond its limit", { "spec.rollout.maxSurge": 101 }, /spec\.rollout\.maxSurge/],
  ["half a replica", { "spec.rollout.maxUnavailable": 0.5 }, /spec\.rollout\.maxUnavailable/],
  ["endless drain", { "spec.rollout.drainSeconds": 3601 }, /spec\.rollout\.drainSeconds/],
  [
    "rollout that cannot move",
    { "spec.rollout": { maxUnavailable: 0, maxSurge: 0 } },
    /rollout\.maxUnavailable and rollout\.maxSurge/,
  ],
  [
    "rollout that cannot move, in percent",
    { "spec.rollout": { maxUnavailable: "0%", maxSurge: 0 } },
    /rollout\.maxUnavailable and rollout\.maxSurge/,
  ],
  [
    "history limit twice",
    { "spec.revisionHistoryLimit": 1, "spec.rollout.revisionHistoryLimit": 2 },
    /spec\.revisionHistoryLimit/,
  ],
  ["hostLostSeconds 0", { "spec.hostLostSeconds": 0 }, /spec\.hostLostSeconds/],
  ["host that is no label", { "spec.placement.hosts": ["mac.local"] }, /spec\.placement\.hosts\[0\]/],
  ["host twice", { "spec.placement.hosts": ["a", "a"] }, /spec\.placement\.hosts\[1\]: Duplicate/],
  [
    "selector without values",
    { "spec.placement.hostSelector": { matchExpressions: [{ key: "a", operator: "In" }] } },
    /hostSelector\.matchExpressions\[0\].*values/,
  ],
  [
    "spread that does not exist",
    { "spec.placement.spread": "always" },
    /spec\.placement\.spread: Unsupported value/,
  ],
  ["auth without a secret", { "spec.auth": {} }, /spec\.auth\.secretRef: Required/],
  ["a gate of another kind", { "spec.endpoint.gate": "Sometimes" }, /spec\.endpoint\.gate: Unsupported/],
  [
    "TLS without the gate",
    { "spec.endpoint": { gate: "Never", tls: { secretRef: { name: "cert" } } } },
    /endpoint\.tls is served by the gate/,
  ],
  [
    "a CA of clients without a certificate",
    { "spec.endpoint": { tls: { clientCASecretRef: { name: "ca" } } } },
    /spec\.endpoint\.tls\.secretRef: Required/,
  ],
  [
    "autoscaling without a maximum",
    { "spec.autoscaling": { minReplicas: 1 } },
    /spec\.autoscaling\.maxReplicas: Required/,
  ],
  [
    "autoscaling upside down",
    { "spec.autoscaling": { minReplicas: 5, maxReplicas: 2 } },
    /autoscaling\.minReplicas/,
  ],
  [
    "an HPA to zero",
    { "spec.autoscaling": { minReplicas: 0, maxReplicas: 2 } },
    /minReplicas 0 needs engine KEDA: .*HPAScaleToZero/,
  ],
  [
    "an autoscaler of another project",
    { "spec.autoscaling": { engine: "Knative", maxReplicas: 2 } },
    /spec\.autoscaling\.engine: Unsupported value/,
  ],
  [
    "metrics for KEDA",
    { "spec.autoscaling": { engine: "KEDA", maxReplicas: 2, metrics: [{ type: "Pods" }] } },
    /autoscaling\.metrics are for engine HPA/,
  ],
  [
    "triggers for an HPA",
    { "spec.autoscaling": { maxReplicas: 2, triggers: [{ type: "cron", metadata: {} }] } },
    /autoscaling\.triggers are for engine KEDA/,
  ],
  [
    "KEDA without a trigger",
    { "spec.autoscaling": { engine: "KEDA", maxReplicas: 2, triggers: [] } },
    /spec\.autoscaling\.triggers/,
  ],
  [
    "a trigger without its type",
    { "spec.autoscaling": { engine: "KEDA", maxReplicas: 2, triggers: [{ metadata: {} }] } },
    /spec\.autoscaling\.triggers\[0\]\.type: Required/,
  ],
  [
    "a metric in both forms",
    { "spec.autoscaling": { maxReplicas: 2, metrics: [{ type: "Pods", name: "a", pods: {} }] } },
    /set either name and the targets/,
  ],
  [
    "a metric of another type",
    { "spec.autoscaling": { maxReplicas: 2, metrics: [{ type: "Pods", external: {} }] } },
    /external needs type External/,
  ],
  [
    "a metric of an object by its name alone",
    { "spec.autoscaling": { maxReplicas: 2, metrics: [{ type: "Object", name: "a" }] } },
    /types Object and ContainerResource need/,
  ],
  [
    "partition without a profile",
    { "spec.resources.gpuSharing": { mode: "partitioned" } },
    /gpuSharing\.profile/,
  ],
  [
    "memory limit without sharing",
    { "spec.resources.gpuSharing": { memoryLimitGiB: 4 } },
    /gpuSharing\.memoryLimitGiB/,
  ],
  ["memory that is no quantity", { "spec.resources.memory": "4 gigs" }, /spec\.resources\.memory/],
  ["limit that is no quantity", { "spec.resources.limits": { cpu: "two" } }, /spec\.resources\.limits\.cpu/],
  [
    "memory limit below the request",
    { "spec.resources": { memory: "4Gi", limits: { memory: "4G" } } },
    /spec\.resources: .*limits\.memory is below resources\.memory/,
  ],
  [
    "memory limit below hostMemory",
    { "spec.resources": { hostMemory: "64Gi", limits: { memory: "32Gi" } } },
    /spec\.resources: .*limits\.memory is below resources\.hostMemory/,
  ],
  [
    "limit of GPUs",
    { "spec.resources.limits": { "nvidia.com/gpu": 1 } },
    /unknown field "spec\.resources\.limits\.nvidia/,
  ],
  ["too many GPUs", { "spec.resources.gpu": 9 }, /spec\.resources\.gpu/],
  [
    "claim of an ephemeral cache",
    { "spec.modelCache": { persistence: "Ephemeral", claimName: "c" } },
    /modelCache\.claimName/,
  ],
  ["objective below 50", { "spec.slo": { objective: "49" } }, /spec\.slo\.objective/],
  [
    "latency without a threshold",
    { "spec.slo": { objective: "99", indicator: "latency" } },
    /slo\.latencyThreshold/,
  ],
  ["objective of 100", { "spec.slo": { objective: "100" } }, /spec\.slo\.objective/],
  [
    "name that no object can have",
    { "spec.slo": { objective: "99", name: "Fast answers" } },
    /spec\.slo\.name/,
  ],
  ["window below an hour", { "spec.slo": { objective: "99", window: "59m" } }, /slo\.window must be from 1h/],
  ["window without length", { "spec.slo": { objective: "99", window: "0d" } }, /slo\.window must be from 1h/],
  ["window above a year", { "spec.slo": { objective: "99", window: "53w" } }, /slo\.window must be from 1h/],
  ["window without a unit", { "spec.slo": { objective: "99", window: "28" } }, /spec\.slo\.window/],
  [
    "GPU share above 0.99",
    { "spec.vllmConfig": { gpuMemoryUtilization: 1 } },
    /spec\.vllmConfig\.gpuMemoryUtilization/,
  ],
  [
    "generic without image or command",
    { "spec.runtime": "generic" },
    /spec\.runtime generic needs spec\.image or spec\.command/,
  ],
  [
    "generic with a relative program",
    { "spec.runtime": "generic", "spec.command": ["serve", "{{port}}"] },
    /spec\.command must begin with the absolute path of a program/,
  ],
  [
    "generic with an unknown placeholder in its command",
    { "spec.runtime": "generic", "spec.command": ["/opt/serve", "{{port}}", "{{modle}}"] },
    /spec\.command holds an unknown placeholder; known with runtime generic and spec\.backendRuntime: \{\{model\}\}/,
  ],
  [
    "generic with an unknown placeholder in its arguments",
    { "spec.runtime": "generic", "spec.command": ["/opt/serve"], "spec.args": ["--port={{ port }}"] },
    /spec\.args holds an unknown placeholder/,
  ],
  ["group of one pod", { "spec.group": { size: 1 } }, /spec\.group\.size/],
  ["group of too many pods", { "spec.group": { size: 33 } }, /spec\.group\.size/],
  [
    "group with a runtime that cannot",
    { "spec.runtime": "tgi", "spec.group": { size: 2 } },
    /spec\.group needs a runtime that serves a model over several pods: llamacpp, vllm/,
  ],
  [
    "group on hosts",
    { "spec.placement": { on: "Hosts" }, "spec.group": { size: 2 } },
    /spec\.group needs spec\.placement\.on Pods/,
  ],
  [
    "group with placement.mode Auto",
    { "spec.placement": { on: "Pods", mode: "Auto" }, "spec.group": { size: 2 } },
    /spec\.group needs spec\.placement\.mode Manual/,
  ],
  [
    "group that is not recreated as one",
    { "spec.group": { size: 2, restartPolicy: "None" } },
    /spec\.group\.restartPolicy: Unsupported value/,
  ],
  [
    "group with tensorrt-llm without its key",
    { "spec.runtime": "tensorrt-llm", "spec.group": { size: 2 } },
    /spec\.group\.sshSecretRef is needed with runtime tensorrt-llm/,
  ],
  [
    "group with a key for ssh that nothing reads",
    { "spec.runtime": "vllm", "spec.group": { size: 2, sshSecretRef: { name: "key" } } },
    /spec\.group\.sshSecretRef.*only there/,
  ],
  [
    "group with a topology that is no label",
    { "spec.group": { size: 2, topologyKey: "a b" } },
    /topologyKey/,
  ],
  [
    "in-flight probe without gauges",
    { "spec.inFlightProbe": { path: "/metrics", gauges: [] } },
    /spec\.inFlightProbe\.gauges/,
  ],
  [
    "toleration effect that does not exist",
    { "spec.tolerations": [{ effect: "Never" }] },
    /spec\.tolerations\[0\]\.effect: Unsupported value/,
  ],
  ["no flavor in the list", { "spec.flavors": [] }, /spec\.flavors.*at least 1 items/],
  [
    "nine flavors",
    { "spec.flavors": Array.from({ length: 9 }, (_, index) => `f${index}`) },
    /spec\.flavors: Too many: 9: must have at most 8 items/,
  ],
  ["a flavor twice", { "spec.flavors": ["mac", "mac"] }, /spec\.flavors\[1\]: Duplicate value: "mac"/],
  [
    "name too long",
    { "metadata.name": `s${"x".repeat(50)}` },
    /metadata\.name of an InferenceService may have at most 50 characters/,
  ],
  ["name with a dot", { "metadata.name": "llama-3.1" }, /metadata\.name of an InferenceService.*no dots/],
  [
    "name that starts with a digit",
    { "metadata.name": "3b" },
    /metadata\.name of an InferenceService must start with a letter/,
  ],
];

test.concurrent.for(cases)("an InferenceService is refused: %s", async ([, fields, says]) => {
  const bad = withFields(manifest("InferenceService", "refused", "default"), fields);
  await expect(sharedCluster().objects.create(bad, { dryRun: true })).rejects.toThrow(says);
});
