import { describe, expect, test } from "vitest";
import { testGoldens } from "../../test/golden/golden.ts";
import type { Host } from "../api/host.ts";
import type { InferenceReplica } from "../api/inference-replica.ts";
import { inferenceServiceSpecSchema } from "../api/inference-service/index.ts";
import type { Model } from "../api/model.ts";
import { requiredRuntimeName } from "../engines/registry.ts";
import { resolveService } from "./resolve.ts";

const GIB = 1024 ** 3;
const GGUF = { layerCount: 16, headCountKV: 8, keyLength: 64, valueLength: 64, embeddingSize: 2048 };

interface Case {
  readonly case: string;
  readonly format: string;
  readonly weightsGib?: number;
  readonly spec?: object;
  /** A replica of the service runs on this runtime, made from `spec` with `replicaSpec`. */
  readonly replicaOn?: string;
  readonly replicaSpec?: object;
  readonly hosts: readonly {
    readonly name: string;
    readonly runtimes: readonly string[];
    readonly labels?: Record<string, string>;
    readonly gib?: number;
    readonly cordoned?: boolean;
  }[];
}

function hostOf({ name, runtimes, labels, gib = 64, cordoned = false }: Case["hosts"][number]): Host {
  const conditions = ["Ready", "Reachable"].map((type) => ({ type, status: "True" }));
  return {
    metadata: { name, labels },
    spec: { unschedulable: cordoned, memory: {} },
    status: {
      conditions,
      runtimes: runtimes.map((runtime) => ({ name: runtime })),
      memory: { gpuBudgetBytes: gib * GIB, totalBytes: 2 * gib * GIB },
    },
  } as unknown as Host;
}

function resolve({ format, weightsGib = 1, hosts }: Case, spec: object, replicas: InferenceReplica[] = []) {
  const service = {
    metadata: { name: "chat", namespace: "default", uid: "u1" },
    spec: inferenceServiceSpecSchema.parse({ modelRef: "tiny", ...spec }),
  };
  const weightsBytes = weightsGib * GIB;
  const model = {
    metadata: { name: "tiny", namespace: "default", generation: 1 },
    spec: { source: "https://models.example/tiny", format, hardware: { accelerator: "metal" } },
    status: { phase: "Ready", weightsBytes, gguf: GGUF },
  } as unknown as Model;
  return resolveService({ service, model, replicas, hosts: hosts.map(hostOf) });
}

function chooseRuntime(given: Case) {
  const { spec = {}, replicaOn, replicaSpec } = given;
  const replicas: InferenceReplica[] = [];
  if (replicaOn !== undefined) {
    const before = resolve(given, { ...spec, ...replicaSpec, runtime: replicaOn });
    if (before.at === "resolved")
      replicas.push({ metadata: {}, spec: before } as unknown as InferenceReplica);
  }
  const resolution = resolve(given, spec, replicas);
  if (resolution.at === "blocked") return { case: given.case, ...resolution };
  const { template, unhonored } = resolution;
  const { command, env } = template.engine.program ?? {};
  return {
    case: given.case,
    runtime: template.runtime,
    needs: requiredRuntimeName(template),
    ...(command === undefined ? {} : { command, env }),
    ...(unhonored.length === 0 ? {} : { unhonored: [...unhonored] }),
  };
}

describe("golden", () => {
  testGoldens(`${import.meta.dirname}/golden`, (cases: readonly Case[]) => cases.map(chooseRuntime));
});

test("naming the runtime that was chosen restarts nothing", () => {
  const given: Case = { case: "", format: "gguf", hosts: [{ name: "a", runtimes: ["ollama"] }] };
  const [chosen, named] = [resolve(given, {}), resolve(given, { runtime: "ollama" })];
  expect(chosen).toMatchObject({ at: "resolved", template: { runtime: "ollama" } });
  expect(chosen.at === "resolved" && chosen.template.revision).toBe(
    named.at === "resolved" && named.template.revision,
  );
});
