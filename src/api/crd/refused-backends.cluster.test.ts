/** Bad BackendRuntimes, and what llmaz's webhooks refuse: the real API server refuses each with a message that names the field. */
import { expect, test } from "vitest";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { type Manifest, manifest, withFields } from "../../../test/fixtures/manifests.ts";
import { API_VERSION } from "../group.ts";

const backend: Manifest = {
  apiVersion: API_VERSION,
  kind: "BackendRuntime",
  metadata: { name: "refused" },
  spec: { image: "registry.example/engine:1", args: ["--model", "{{ .ModelPath }}"] },
};
const host = { command: ["serve"], args: ["--port", "{{port}}"] };

type Case = readonly [title: string, fields: Record<string, unknown>, says: RegExp];

const backends: readonly Case[] = [
  [
    "name with a dot",
    { "metadata.name": "my.engine" },
    /metadata\.name of a BackendRuntime must be a DNS label/,
  ],
  ["neither image nor host", { "spec.image": undefined }, /engine generic needs image, host or both/],
  [
    "unknown placeholder",
    { "spec.args": ["{{ .ModelFolder }}"] },
    /args holds an unknown or empty placeholder/,
  ],
  [
    "empty placeholder",
    { "spec.command": ["serve", "{{}}"] },
    /command holds an unknown or empty placeholder/,
  ],
  ["nested placeholder", { "spec.args": ["{{ {{model}} }}"] }, /args holds an unknown or empty placeholder/],
  [
    "unknown placeholder in a variable",
    { "spec.env": [{ name: "A", value: "{{ .Nothing }}" }] },
    /env holds an unknown or empty placeholder/,
  ],
  ["variable twice", { "spec.env": [{ name: "A" }, { name: "A" }] }, /spec\.env\[1\]: Duplicate value/],
  ["name that is no variable", { "spec.env": [{ name: "A B" }] }, /spec\.env\[0\]\.name/],
  ["tag twice", { "spec.version": "2" }, /version needs an image without a tag and without a digest/],
  [
    "command of a runtime that has its own",
    { "spec.engine": "vllm", "spec.command": ["serve"] },
    /command and host go only with engine generic/,
  ],
  [
    "host of a runtime that has its own",
    { "spec.engine": "vllm", "spec.host": host },
    /command and host go only/,
  ],
  ["engine that does not exist", { "spec.engine": "triton" }, /spec\.engine: Unsupported value/],
  [
    "two configurations of one name",
    { "spec.recommendedConfigs": [{ name: "default" }, { name: "default", args: ["--fast"] }] },
    /spec\.recommendedConfigs\[1\]: Duplicate value/,
  ],
  [
    "unknown placeholder in a configuration",
    { "spec.recommendedConfigs": [{ name: "default", args: ["{{draft}}"] }] },
    /args holds an unknown or empty placeholder/,
  ],
  [
    "limit below the request",
    { "spec.resources": { cpu: 2, limits: { cpu: "1900m" } } },
    /spec\.resources: .*limits\.cpu is below resources\.cpu/,
  ],
  [
    "limit below the request in a configuration",
    {
      "spec.recommendedConfigs": [
        { name: "default", resources: { memory: "8Gi", limits: { memory: "4Gi" } } },
      ],
    },
    /spec\.recommendedConfigs\[0\]\.resources: .*limits\.memory is below resources\.memory/,
  ],
  [
    "requests in a field of their own",
    { "spec.resources": { requests: { memory: "8Gi" } } },
    /unknown field "spec\.resources\.requests"/,
  ],
  [
    "a scale trigger without hpa",
    { "spec.recommendedConfigs": [{ name: "default", scaleTrigger: {} }] },
    /scaleTrigger\.hpa: Required/,
  ],
  [
    "a scale trigger that sets nothing",
    { "spec.recommendedConfigs": [{ name: "default", scaleTrigger: { hpa: {} } }] },
    /scaleTrigger\.hpa needs metrics, behavior or both/,
  ],
  [
    "a scale trigger with a metric of another type",
    {
      "spec.recommendedConfigs": [
        {
          name: "default",
          scaleTrigger: { hpa: { metrics: [{ type: "Pods", resource: { name: "cpu" } }] } },
        },
      ],
    },
    /resource needs type Resource/,
  ],
  [
    "a configuration that names another one",
    { "spec.recommendedConfigs": [{ name: "default", config: "default" }] },
    /unknown field "spec\.recommendedConfigs\[0\]\.config"/,
  ],
  ["resource that is no quantity", { "spec.resources.memory": "much" }, /spec\.resources\.memory/],
  ["shared memory that is no quantity", { "spec.sharedMemory": "2 GiB" }, /spec\.sharedMemory/],
  ["gauges without one", { "spec.gauges": { running: [] } }, /spec\.gauges\.running/],
  ["gauge with labels", { "spec.gauges": { running: ['up{job="a"}'] } }, /spec\.gauges\.running\[0\]/],
  ["path without a slash", { "spec.apiPaths": ["v1/models"] }, /spec\.apiPaths\[0\]/],
  ["host without a port", { "spec.host": { command: ["serve"] } }, /holds \{\{port\}\}/],
  [
    "relative program",
    { "spec.host": { ...host, command: ["bin/serve"] } },
    /host\.command must begin with an absolute path or the name of a program/,
  ],
  [
    "placeholder as the program",
    { "spec.host": { ...host, command: ["{{model}}"] } },
    /host\.command must begin with an absolute path/,
  ],
  [
    "two memory claims",
    { "spec.host": { ...host, memory: { fixed: "1Gi", weightsPercent: 110 } } },
    /exactly one of fixed and weightsPercent/,
  ],
  [
    "extra memory beside a fixed claim",
    { "spec.host": { ...host, memory: { fixed: "1Gi", extra: "1Gi" } } },
    /host\.memory\.extra needs weightsPercent/,
  ],
];

const models: readonly Case[] = [
  ["bucket without a path", { "spec.source": "s3://bucket" }, /spec\.source needs the bucket and a path/],
  ["bucket without a name", { "spec.source": "gs:///weights" }, /spec\.source needs the bucket and a path/],
  [
    "address without a scheme that is known",
    { "spec.source": "gcs://bucket/weights" },
    /spec\.source must be/,
  ],
];

const services: readonly Case[] = [
  [
    "BackendRuntime beside a runtime",
    { "spec.backendRuntime": { name: "mine" }, "spec.runtime": "vllm" },
    /spec\.backendRuntime names the runtime and the command/,
  ],
  [
    "BackendRuntime beside a command",
    { "spec.backendRuntime": { name: "mine" }, "spec.command": ["/bin/serve"] },
    /spec\.backendRuntime names the runtime and the command/,
  ],
  ["BackendRuntime without a name", { "spec.backendRuntime": {} }, /spec\.backendRuntime\.name: Required/],
  [
    "configuration that no BackendRuntime can have",
    { "spec.backendRuntime": { name: "mine", config: "Fast one" } },
    /spec\.backendRuntime\.config/,
  ],
  [
    "version that is no tag",
    { "spec.backendRuntime": { name: "mine", version: "a:b" } },
    /backendRuntime\.version/,
  ],
];

async function expectRefused(bad: Manifest, says: RegExp): Promise<void> {
  await expect(sharedCluster().objects.create(bad, { dryRun: true })).rejects.toThrow(says);
}

test.concurrent.for(backends)("a BackendRuntime is refused: %s", async ([, fields, says]) => {
  await expectRefused(withFields(backend, fields), says);
});

test.concurrent.for(models)("a Model is refused: %s", async ([, fields, says]) => {
  await expectRefused(withFields(manifest("Model", "refused", "default"), fields), says);
});

test.concurrent.for(services)("an InferenceService is refused: %s", async ([, fields, says]) => {
  await expectRefused(withFields(manifest("InferenceService", "refused", "default"), fields), says);
});

test("a BackendRuntime with every alias of a placeholder, for hosts and pods, is accepted", async () => {
  const args = ["{{.ModelPath}}", "{{ .ModelName }}={{model}}", "{ {x} }", "{{ .TensorParallelSize }}"];
  const good = withFields(backend, { "spec.args": args, "spec.host": host });
  expect(await sharedCluster().objects.create(good, { dryRun: true })).toMatchObject({ spec: { args } });
});
