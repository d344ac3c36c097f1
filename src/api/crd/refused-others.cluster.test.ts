/** Bad Models, InferenceReplicas and Hosts: the real API server refuses each with a message that names the field. */
import { expect, test } from "vitest";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { type ManifestKind, manifest, withFields } from "../../../test/fixtures/manifests.ts";

type Case = readonly [kind: ManifestKind, title: string, fields: Record<string, unknown>, says: RegExp];

const DIGEST = "a".repeat(64);

const cases: readonly Case[] = [
  ["Model", "unknown field", { "spec.sources": "x" }, /unknown field "spec\.sources"/],
  ["Model", "no source", { "spec.source": undefined }, /spec\.source: Required/],
  ["Model", "empty source", { "spec.source": "" }, /spec\.source/],
  ["Model", "source of an unknown scheme", { "spec.source": "ftp://host/x.gguf" }, /spec\.source must be/],
  ["Model", "source with a space", { "spec.source": "https://host/a b.gguf" }, /spec\.source must be/],
  ["Model", "relative path", { "spec.source": "../model.gguf" }, /spec\.source must be/],
  ["Model", "checksum too short", { "spec.sha256": "abc" }, /spec\.sha256/],
  [
    "Model",
    "checksum of an ollama source",
    { "spec.source": "ollama://qwen3:4b", "spec.sha256": DIGEST },
    /spec\.sha256 cannot be checked/,
  ],
  ["Model", "format that does not exist", { "spec.format": "onnx" }, /spec\.format: Unsupported value/],
  ["Model", "ollama format from elsewhere", { "spec.format": "ollama" }, /no other source has format ollama/],
  [
    "Model",
    "format that an ollama source does not have",
    { "spec.source": "ollama://qwen3:4b", "spec.format": "mlx" },
    /no other source has format ollama/,
  ],
  [
    "Model",
    "files of an ollama source",
    { "spec.source": "ollama://qwen3:4b", "spec.files": ["a"] },
    /spec\.files, spec\.ignorePatterns and spec\.mmproj/,
  ],
  [
    "Model",
    "patterns for an ollama source",
    { "spec.source": "ollama://qwen3:4b", "spec.ignorePatterns": ["a"] },
    /spec\.ignorePatterns and spec\.mmproj/,
  ],
  ["Model", "family with a space", { "spec.familyName": "llama 3" }, /spec\.familyName/],
  ["Model", "family that ends with a dot", { "spec.familyName": "llama." }, /spec\.familyName/],
  ["Model", "family that is too long", { "spec.familyName": "f".repeat(64) }, /spec\.familyName/],
  ["Model", "empty family", { "spec.familyName": "" }, /spec\.familyName/],
  ["Model", "owner with a control character", { "spec.ownedBy": "me\u001b[31m" }, /spec\.ownedBy/],
  ["Model", "owner with a new line", { "spec.ownedBy": "me\nyou" }, /spec\.ownedBy/],
  ["Model", "owner that is too long", { "spec.ownedBy": "o".repeat(129) }, /spec\.ownedBy/],
  ["Model", "empty owner", { "spec.ownedBy": "" }, /spec\.ownedBy/],
  ["Model", "creation on no day", { "spec.createdAt": "2024-13-01T00:00:00Z" }, /spec\.createdAt/],
  ["Model", "empty pattern", { "spec.ignorePatterns": [""] }, /spec\.ignorePatterns\[0\]/],
  ["Model", "pattern with a space", { "spec.ignorePatterns": ["a b"] }, /spec\.ignorePatterns\[0\]/],
  [
    "Model",
    "file outside the source",
    { "spec.files": ["a/../../etc/passwd"] },
    /spec\.files\[0\].*no '\.\.'/,
  ],
  ["Model", "absolute file", { "spec.files": ["/etc/passwd"] }, /spec\.files\[0\]/],
  ["Model", "projector outside the source", { "spec.mmproj": "../mmproj.gguf" }, /spec\.mmproj/],
  [
    "Model",
    "refresh policy that does not exist",
    { "spec.refreshPolicy": "Always" },
    /spec\.refreshPolicy: Unsupported value/,
  ],
  [
    "Model",
    "accelerator that does not exist",
    { "spec.hardware.accelerator": "tpu" },
    /spec\.hardware\.accelerator: Unsupported value/,
  ],
  ["Model", "no flavor in the list", { "spec.flavors": [] }, /spec\.flavors.*at least 1 items/],
  [
    "Model",
    "nine flavors",
    { "spec.flavors": Array.from({ length: 9 }, (_, index) => ({ name: `f${index}`, hostSelector: {} })) },
    /spec\.flavors: Too many: 9: must have at most 8 items/,
  ],
  [
    "Model",
    "two flavors of one name",
    {
      "spec.flavors": [
        { name: "gpu", nodeSelector: { gpu: "l40s" } },
        { name: "gpu", nodeSelector: { gpu: "a10" } },
      ],
    },
    /spec\.flavors\[1\]: Duplicate value: \{"name":"gpu"\}/,
  ],
  [
    "Model",
    "a flavor without a target",
    { "spec.flavors": [{ name: "any", params: { args: ["-v"] } }] },
    /spec\.flavors\[0\].*a flavor needs at least one of hostSelector, limits, nodeSelector, deviceClass and params\.instanceType/,
  ],
  [
    "Model",
    "a flavor for hosts and pods",
    { "spec.flavors": [{ name: "both", hostSelector: {}, limits: { "nvidia.com/gpu": 1 } }] },
    /spec\.flavors\[0\].*a flavor is for hosts \(hostSelector\) or for pods/,
  ],
  [
    "Model",
    "an image on hosts",
    { "spec.flavors": [{ name: "mac", hostSelector: {}, params: { image: "engine:1" } }] },
    /a flavor with hostSelector has only args in params/,
  ],
  [
    "Model",
    "an instance type on hosts",
    { "spec.flavors": [{ name: "mac", hostSelector: {}, params: { instanceType: "mac2.metal" } }] },
    /a flavor with hostSelector has only args in params/,
  ],
  [
    "Model",
    "an instance type that contradicts nodeSelector",
    {
      "spec.flavors": [
        {
          name: "l40s",
          nodeSelector: { "node.kubernetes.io/instance-type": "g6e.xlarge" },
          params: { instanceType: "g6e.2xlarge" },
        },
      ],
    },
    /params\.instanceType and node\.kubernetes\.io\/instance-type in nodeSelector name different types/,
  ],
  [
    "Model",
    "an instance type that cannot be the value of a label",
    { "spec.flavors": [{ name: "l40s", params: { instanceType: "g6e xlarge" } }] },
    /spec\.flavors\[0\]\.params\.instanceType/,
  ],
  [
    "Model",
    "a limit that is no quantity",
    { "spec.flavors": [{ name: "gpu", limits: { "nvidia.com/gpu": "two" } }] },
    /spec\.flavors\[0\]\.limits/,
  ],
  [
    "Model",
    "flavor name with a capital",
    { "spec.flavors": [{ name: "L40S", nodeSelector: { gpu: "l40s" } }] },
    /spec\.flavors\[0\]\.name/,
  ],
  [
    "Model",
    "claims and limits of flavors",
    {
      "spec.flavors": [{ name: "gpu", limits: { "nvidia.com/gpu": 1 } }],
      "spec.hardware.gpu.resourceClaims": [{ name: "gpu", resourceClaimName: "mine" }],
    },
    /hardware\.gpu\.resourceClaims contradicts limits and deviceClass of flavors/,
  ],
  [
    "Model",
    "device class without an accelerator",
    {
      "spec.flavors": [{ name: "gpu", deviceClass: "gpu.nvidia.com" }],
      "spec.hardware.accelerator": "cpu",
    },
    /hardware\.accelerator cpu contradicts deviceClass/,
  ],
  ["Model", "too many GPUs", { "spec.hardware.gpu.count": 9 }, /spec\.hardware\.gpu\.count/],
  [
    "Model",
    "budget and fraction",
    { "spec.hardware": { memoryBudget: "8Gi", memoryFraction: 0.5 } },
    /only one of hardware\.memoryBudget/,
  ],
  ["Model", "fraction 0", { "spec.hardware.memoryFraction": 0 }, /spec\.hardware\.memoryFraction/],
  ["Model", "fraction above 1", { "spec.hardware.memoryFraction": 1.1 }, /spec\.hardware\.memoryFraction/],
  [
    "Model",
    "a fraction of one and a half",
    { "spec.hardware.memoryFraction": 1.5 },
    /spec\.hardware\.memoryFraction/,
  ],
  [
    "Model",
    "a fraction that is no number",
    { "spec.hardware.memoryFraction": "NaN" },
    /spec\.hardware\.memoryFraction/,
  ],
  [
    "Model",
    "budget that is no quantity",
    { "spec.hardware.memoryBudget": "lots" },
    /spec\.hardware\.memoryBudget/,
  ],
  [
    "Model",
    "budget 0",
    { "spec.hardware.memoryBudget": "0Gi" },
    /hardware\.memoryBudget must be greater than 0/,
  ],
  [
    "Model",
    "budget 0 as a number",
    { "spec.hardware.memoryBudget": 0 },
    /hardware\.memoryBudget must be greater than 0/,
  ],
  [
    "Model",
    "claims and resource name",
    {
      "spec.hardware.gpu": { resourceName: "a.b/c", resourceClaims: [{ name: "g", resourceClaimName: "c" }] },
    },
    /hardware\.gpu\.resourceName/,
  ],
  [
    "Model",
    "claim without a reference",
    { "spec.hardware.gpu.resourceClaims": [{ name: "g" }] },
    /hardware\.gpu\.resourceClaims/,
  ],
  [
    "Model",
    "resource name without a domain",
    { "spec.hardware.gpu.resourceName": "gpu" },
    /spec\.hardware\.gpu\.resourceName/,
  ],
  [
    "Model",
    "layer range that is none",
    { "spec.hardware.gpu.sharding.layerSplit": ["1..4"] },
    /layerSplit\[0\]/,
  ],
  ["Model", "secret without a name", { "spec.sourceSecretRef": {} }, /spec\.sourceSecretRef\.name: Required/],
  ["InferenceReplica", "no template", { "spec.template": undefined }, /spec\.template: Required/],
  ["InferenceReplica", "no memory", { "spec.memory": undefined }, /spec\.memory: Required/],
  ["InferenceReplica", "no claim", { "spec.memory": {} }, /spec\.memory\.claimBytes: Required/],
  [
    "InferenceReplica",
    "no host",
    { "spec.template.hostName": undefined },
    /spec\.template\.hostName: Required/,
  ],
  ["InferenceReplica", "negative claim", { "spec.memory.claimBytes": -1 }, /spec\.memory\.claimBytes/],
  ["InferenceReplica", "drain too long", { "spec.drainSeconds": 3601 }, /spec\.drainSeconds/],
  ["InferenceReplica", "negative drain", { "spec.drainSeconds": -1 }, /spec\.drainSeconds/],
  [
    "InferenceReplica",
    "deadline that is no time",
    { "spec.drain": { reason: "Rollout", deadline: "soon" } },
    /spec\.drain\.deadline/,
  ],
  [
    "InferenceReplica",
    "unknown engine setting",
    { "spec.template.engine.ctx": 1 },
    /unknown field "spec\.template\.engine\.ctx"/,
  ],
  ["InferenceReplica", "no mode", { "spec.template.engine": {} }, /spec\.template\.engine\.mode: Required/],
  [
    "InferenceReplica",
    "name too long",
    { "metadata.name": `r${"x".repeat(63)}` },
    /metadata\.name of an InferenceReplica/,
  ],
  [
    "InferenceReplica",
    "name with a dot",
    { "metadata.name": "chat.0" },
    /metadata\.name of an InferenceReplica/,
  ],
  ["Host", "unknown field", { "spec.address": "10.0.0.1" }, /unknown field "spec\.address"/],
  ["Host", "address that is none", { "spec.addresses": ["mac.local"] }, /spec\.addresses\[0\]/],
  [
    "Host",
    "address twice",
    { "spec.addresses": ["10.0.0.1", "10.0.0.1"] },
    /spec\.addresses\[1\]: Duplicate/,
  ],
  ["Host", "address with impossible bytes", { "spec.addresses": ["10.0.0.300"] }, /spec\.addresses/],
  ["Host", "mask that is none", { "spec.addresses": ["10.0.0.0/33"] }, /spec\.addresses/],
  ["Host", "loopback address", { "spec.addresses": ["127.0.0.1"] }, /spec\.addresses.*loopback/],
  [
    "Host",
    "reserve that is no quantity",
    { "spec.memory.systemReserve": "8 GB" },
    /spec\.memory\.systemReserve/,
  ],
  ["Host", "negative budget", { "spec.memory.gpuBudget": -1 }, /spec\.memory\.gpuBudget/],
  [
    "Host",
    "budget of nothing",
    { "spec.memory.gpuBudget": "0Gi" },
    /spec\.memory\.gpuBudget must be greater/,
  ],
  ["Host", "budget of zero", { "spec.memory.gpuBudget": 0 }, /spec\.memory\.gpuBudget must be greater/],
  ["Host", "budget that no host has", { "spec.memory.gpuBudget": "1Pi" }, /gpuBudget must be at most 64Ti/],
  [
    "Host",
    "reserve that no host has",
    { "spec.memory.systemReserve": "1Ei" },
    /systemReserve must be at most/,
  ],
  [
    "Host",
    "reserve that leaves nothing",
    { "spec.memory.gpuBudget": "48Gi", "spec.memory.systemReserve": 51539607552 },
    /spec\.memory\.systemReserve must be less than spec\.memory\.gpuBudget/,
  ],
  ["Host", "budget that is no quantity", { "spec.memory.gpuBudget": "much" }, /spec\.memory\.gpuBudget/],
  ["Host", "name with a dot", { "metadata.name": "mac.local" }, /metadata\.name of a Host/],
  ["Host", "name too long", { "metadata.name": `h${"x".repeat(63)}` }, /metadata\.name of a Host.*63/],
];

test.concurrent.for(cases)("a %s is refused: %s", async ([kind, , fields, says]) => {
  const bad = withFields(manifest(kind, "refused", kind === "Host" ? undefined : "default"), fields);
  await expect(sharedCluster().objects.create(bad, { dryRun: true })).rejects.toThrow(says);
});
