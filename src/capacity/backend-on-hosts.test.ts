import { expect, test } from "vitest";
import { backendRuntimeSchema } from "../api/backend-runtime.ts";
import { hostSchema } from "../api/host.ts";
import { inferenceServiceSpecSchema } from "../api/inference-service/index.ts";
import type { Model } from "../api/model.ts";
import type { BackendRevision } from "./backend.ts";
import { fitOfService } from "./fit/service-fit.ts";
import { resolveService } from "./resolve.ts";

const GIB = 1024 ** 3;

const tiny = model("tiny", { weightsBytes: 4 * GIB });
const draft = model("small", { weightsBytes: GIB });

function model(name: string, status: object, source = `https://models.example/${name}.gguf`): Model {
  return {
    metadata: { name, namespace: "default", generation: 1 },
    spec: { source, format: "gguf" },
    status: { phase: "Ready", observedGeneration: 1, ...status },
  } as unknown as Model;
}

function backendOf(host: object = {}, fields: object = {}): BackendRevision {
  const { spec } = backendRuntimeSchema.parse({
    metadata: { name: "mine" },
    spec: {
      host: {
        command: ["serve"],
        args: ["--port", "{{ .Port }}", "--as", "{{ .ModelName }}"],
        install: "brew install mine",
        ...host,
      },
      gauges: { running: ["running"], queued: ["queued"] },
      probes: { liveness: { httpGet: { path: "/health", port: 8080 }, periodSeconds: 10 } },
      ...fields,
    },
  });
  return { name: "mine", spec };
}

function serviceOf(spec: object = {}) {
  return {
    metadata: { name: "chat", namespace: "default", uid: "u1" },
    spec: inferenceServiceSpecSchema.parse({ modelRef: "tiny", backendRuntime: { name: "mine" }, ...spec }),
  };
}

function hostOf(name: string, runtimes: readonly { name: string; path?: string }[]) {
  const isTrue = (type: string) => ({ type, status: "True", reason: "Test", message: "" });
  return hostSchema.parse({
    metadata: { name, creationTimestamp: "2026-01-01T00:00:00Z" },
    status: {
      conditions: ["Ready", "Reachable"].map((type) => ({
        ...isTrue(type),
        lastTransitionTime: "2026-01-01T00:00:00Z",
      })),
      runtimes,
      memory: { totalBytes: 64 * GIB, gpuBudgetBytes: 48 * GIB },
    },
  });
}

function fitOf(backend: BackendRevision, hosts: readonly ReturnType<typeof hostOf>[], spec: object = {}) {
  const objects = { service: serviceOf(spec), backend, model: tiny, hosts, replicas: [], services: [] };
  return fitOfService(objects, 0);
}

test("only hosts that allow the BackendRuntime fit, and the others say what to change", () => {
  const hosts = [
    hostOf("a", [{ name: "generic", path: "/opt" }]),
    hostOf("b", [{ name: "backend/mine", path: "/opt/mine/serve" }]),
  ];
  const { report } = fitOf(backendOf(), hosts);
  expect(report).toMatchObject({ choice: { host: "b" }, hosts: [{ host: "b" }, { host: "a" }] });
  expect(report.hosts[1]).toMatchObject({
    fits: false,
    code: "BackendNotAllowed",
    message: "does not allow BackendRuntime mine, or its program is not installed",
  });
  expect(fitOf(backendOf(), hosts.slice(0, 1)).report.missing).toBe(
    "no host allows BackendRuntime mine; install its program on a host (install: brew install mine), set backends.mine.path in the agent's configuration to its path, and restart the agent",
  );
});

test("a BackendRuntime with an absolute path fits on hosts that allow this path", () => {
  const allowing = (name: string, path: string) => hostOf(name, [{ name: "backend/mine", path }]);
  const backend = backendOf({ command: ["/opt/mine/serve"] });
  const { report } = fitOf(backend, [allowing("a", "/usr/bin/serve"), allowing("b", "/opt/mine/serve")]);
  expect(report.choice).toMatchObject({ host: "b" });
  expect(report.hosts[1]).toMatchObject({
    code: "BackendNotAllowed",
    message: "allows BackendRuntime mine only with program /usr/bin/serve, not with /opt/mine/serve",
  });
});

test.each([
  ["of the BackendRuntime's formula", { memory: { weightsPercent: 110, extra: "1Gi" } }, {}, 5.4],
  ["of the BackendRuntime", { memory: { fixed: "6Gi" } }, {}, 6],
  ["of the service", { memory: { fixed: "6Gi" } }, { resources: { memory: "7Gi" } }, 7],
])("the claim is that %s", (_, host, spec, gib) => {
  const { claim } = fitOf(backendOf(host), [], spec);
  expect(claim).toMatchObject({ at: "estimated", memory: { claimBytes: Math.ceil(gib * GIB) } });
});

test("a formula of a file that only hosts can read is left to the host", () => {
  const local = model("tiny", {}, "file:///models/tiny.gguf");
  const objects = { service: serviceOf(), model: local, replicas: [] };
  const claimOf = (memory: object) => resolveService({ ...objects, backend: backendOf({ memory }) });
  expect(claimOf({ weightsPercent: 110 })).toMatchObject({ claim: { at: "hostDecides" } });
  expect(claimOf({ fixed: "6Gi" })).toMatchObject({ claim: { at: "estimated" } });
});

test("gauges, probes and the model's name reach the program, and no part of them counts as ignored", () => {
  const resolution = resolveService({
    service: serviceOf(),
    backend: backendOf(),
    model: tiny,
    replicas: [],
  });
  expect(resolution).toMatchObject({ at: "resolved", unhonored: [], install: "brew install mine" });
  if (resolution.at !== "resolved") throw new Error(resolution.message);
  expect(resolution.template.engine.program).toMatchObject({
    command: ["serve", "--port", "{{port}}", "--as", "{{modelName}}"],
    liveness: { httpPath: "/health" },
    inFlightProbe: { path: "/metrics", gauges: ["running", "queued"] },
    backend: "mine",
  });
});

test("a draft model is counted and passed, and its placeholder is refused without one", () => {
  const backend = backendOf({ args: ["{{port}}", "{{ .DraftModelPath }}"], memory: { weightsPercent: 100 } });
  const modelRefs = [{ name: "tiny" }, { name: "small", role: "draft" }];
  const withDraft = { service: serviceOf({ modelRef: undefined, modelRefs }), draftModel: draft };
  const resolved = resolveService({ ...withDraft, backend, model: tiny, replicas: [] });
  expect(resolved).toMatchObject({
    unhonored: [],
    claim: { memory: { claimBytes: 5 * GIB, weightsBytes: 4 * GIB, draftBytes: GIB } },
  });
  const without = resolveService({ service: serviceOf(), backend, model: tiny, replicas: [] });
  expect(without).toMatchObject({
    at: "blocked",
    code: "CommandInvalid",
    message: "{{draftModel}} has no value: the service has no draft model",
  });
  const unused = resolveService({ ...withDraft, backend: backendOf(), model: tiny, replicas: [] });
  expect(unused).toMatchObject({ unhonored: ["spec.modelRefs small (draft)"] });
});
