/** LLMKube's runtimes for Macs in examples/backends run the commands that LLMKube's executors build, under the same names. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { backendRuntimeSchema } from "../../src/api/backend-runtime.ts";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { modelSchema } from "../../src/api/model.ts";
import { readProbes } from "../../src/api/probes.ts";
import { probesWithBackend } from "../../src/capacity/backend.ts";
import { resolveService } from "../../src/capacity/resolve.ts";
import { renderProgram } from "../../src/engines/generic/program.ts";

const FOLDER = "/Users/Shared/models/m";

function resolve(name: string, spec: object = {}) {
  const text = readFileSync(new URL(`../../examples/backends/${name}.yaml`, import.meta.url), "utf8");
  const [backend, model, service] = parseAllDocuments(text).map((one) => one.toJS());
  const parsed = modelSchema.parse({
    ...model,
    metadata: { ...model.metadata, namespace: "a", generation: 1 },
    status: { phase: "Ready", observedGeneration: 1, format: "mlx", sizeBytes: 1e9, gguf: { layerCount: 2 } },
  });
  const given = inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "a", uid: "u" },
    spec: { ...service.spec, ...spec },
  });
  const revision = { name, spec: backendRuntimeSchema.parse(backend).spec };
  const resolved = resolveService({
    service: given,
    model: parsed,
    loraModels: [],
    replicas: [],
    backend: revision,
  });
  if (resolved.at === "blocked") throw new Error(resolved.message);
  const { program } = resolved.template.engine;
  if (program === undefined) throw new Error("no program");
  const rendered = renderProgram(program, {
    model: FOLDER,
    modelName: "chat",
    draftModel: undefined,
    port: "21000",
    address: "10.0.0.2",
    contextSize: "8192",
    slots: "4",
    tensorParallelSize: "1",
    pipelineParallelSize: "1",
  });
  return { resolved, rendered, service: given, backend: revision };
}

test.each([
  ["mlx-server", `--model ${FOLDER} --host 10.0.0.2 --port 21000 --max-slots 4`, undefined],
  [
    "vllm-swift",
    `serve ${FOLDER} --served-model-name chat --host 10.0.0.2 --port 21000 --max-model-len 8192 --max-num-seqs 4`,
    ["vllm:num_requests_running", "vllm:num_requests_waiting"],
  ],
  [
    "tensorfold",
    `serve ${FOLDER} --host 10.0.0.2 --port 21000 --name chat --context 8192 --parallel 4 --no-update-check`,
    ["tensorfold:num_requests_running", "tensorfold:num_requests_waiting"],
  ],
])("%s runs as LLMKube runs it, probed at /health", (name, flags, gauges) => {
  const { resolved, rendered } = resolve(name);
  expect(rendered.command.join(" ")).toBe(`${name} ${flags}`);
  expect(rendered.liveness).toEqual({ httpPath: "/health" });
  expect(rendered.inFlightProbe?.gauges).toEqual(gauges);
  expect(resolved.unhonored).toEqual([]);
  expect(resolved.template.engine.program?.backend).toBe(name);
});

test("arguments of the service follow, as LLMKube's extraArgs do", () => {
  const { rendered } = resolve("mlx-server", { args: ["--tool-call-format", "xml_function"] });
  expect(rendered.command.slice(-3)).toEqual(["4", "--tool-call-format", "xml_function"]);
});

test("TurboQuant is a configuration of vllm-swift", () => {
  const { rendered } = resolve("vllm-swift", {
    backendRuntime: { name: "vllm-swift", config: "turboquant" },
  });
  const [flag, json = ""] = rendered.command.slice(-2);
  expect([flag, JSON.parse(json)]).toEqual(["--additional-config", { kv_scheme: "turbo4v2", kv_bits: 4 }]);
});

test("TensorFold has ten minutes to start and asks for no update, vllm-swift has five minutes", () => {
  const startSecondsOf = (name: string) => {
    const { service, backend } = resolve(name);
    return readProbes(probesWithBackend(service.spec, backend, "Hosts")).value.startSeconds;
  };
  expect([startSecondsOf("tensorfold"), startSecondsOf("vllm-swift")]).toEqual([600, 300]);
  expect(resolve("tensorfold").rendered.env).toEqual([{ name: "TENSORFOLD_NO_UPDATE_CHECK", value: "1" }]);
});
