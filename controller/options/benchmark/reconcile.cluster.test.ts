/** Benchmarks with the real API server: what one namespace or the ConfigMap refuses stops nothing else. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { NAMESPACE_SYSTEM } from "../../../src/api/group.ts";
import { BENCHMARKS_NAME } from "../../../src/capacity/benchmark/table.ts";
import { GGUF } from "../../../src/capacity/testing/models.ts";
import { JOBS, NODES } from "../../../src/kube/kinds.ts";
import type { Node } from "../../../src/kube/workload-objects.ts";
import { must } from "../../../test/bed/must.ts";
import { until } from "../../../test/bed/until.ts";
import { WITH_QUOTAS } from "../../../test/cluster/planes.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { type Bench, startBench } from "../../../test/controller/bench.ts";

let bench: Bench;
const lines: string[] = [];

beforeAll(async () => {
  const note = (facts: object, text: string) =>
    lines.push(`${text} ${JSON.stringify(facts)} ${errorIn(facts)}`);
  const log = { ...quietLog, info: note, warn: note, error: note };
  bench = await startBench({
    log: { ...log, child: () => log } as typeof quietLog,
    controlPlane: { controllerManager: WITH_QUOTAS },
  });
});
afterAll(() => bench?.[Symbol.asyncDispose]());

const errorIn = (facts: object) =>
  Object.values(facts).map((value) => (value instanceof Error ? value.message : ""));

async function addGPU(name: string): Promise<void> {
  const labels = { "nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.memory": "23034" };
  must(await bench.client.create(NODES, { metadata: { name, labels } } as Node));
  // As kube-controller-manager does with the taint of a new node.
  await bench.objects.patch("", `node/${name}`, { spec: { taints: null } });
  const resources = { cpu: "8", memory: "64Gi", "nvidia.com/gpu": "1" };
  const now = new Date().toISOString();
  const ready = { type: "Ready", status: "True", reason: "", message: "", lastTransitionTime: now };
  must(
    await bench.client.jsonPatch(
      NODES,
      { name },
      [
        {
          op: "add",
          path: "/status",
          value: { capacity: resources, allocatable: resources, conditions: [ready] },
        },
      ],
      { subresource: "status" },
    ),
  );
}

async function addModel(namespace: string, name: string): Promise<void> {
  const source = `hf://org/${name}/${name}.gguf`;
  await bench.model(namespace, name, { accelerator: "cuda", gib: 4, source, gpus: 1 });
  const size = 4 * 2 ** 30;
  await bench.markReady(namespace, name, {
    ...{
      format: "gguf",
      gguf: GGUF,
      files: [`${name}.gguf`],
      sizeBytes: size,
      weightsBytes: size,
      cacheKey: name,
    },
    cache: {
      phase: "Ready",
      reason: "Downloaded",
      message: "",
      claimName: "cache",
      folder: name,
      file: `${name}.gguf`,
    },
  });
}

test("a Job is created although another namespace refuses its Jobs and the ConfigMap is immutable", async () => {
  await bench.stopController();
  for (const name of ["closed", "open"]) await bench.objects.createNamespace(name);
  await bench.apply({
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: { name: "no-jobs", namespace: "closed" },
    spec: { hard: { "count/jobs.batch": "0" } },
  });
  await bench.objects.until("closed", "quota/no-jobs", ({ status }) => expect(status?.hard).toBeDefined());
  const old = {
    ...{
      model: "hf://org/gone",
      deviceClass: "m4",
      machine: "mac-1",
      runtime: "llamacpp",
      build: "b1",
      settings: {},
    },
    ...{
      measuredAt: "2020-01-01T00:00:00Z",
      tool: "llama-bench",
      generation: { median: 1, spread: 0, samples: [1] },
    },
  };
  await bench.apply({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: BENCHMARKS_NAME, namespace: NAMESPACE_SYSTEM },
    immutable: true,
    data: { "gone-m4": JSON.stringify(old) },
  });
  await addGPU("gpu-1");
  await addModel("closed", "first");
  await addModel("closed", "second");
  await addModel("open", "third");
  await bench.restartController(undefined, { benchmarks: "Auto" });
  await until(async () => {
    const jobs = must(await bench.client.list(JOBS, {})).items.map(({ metadata }) => metadata.namespace);
    expect(jobs).toEqual(["open"]);
    const text = lines.join("\n");
    expect(text).toMatch(/field is immutable/);
    expect(text.match(/gpu-1: Job closed\/\S+ was refused: .*exceeded quota: no-jobs/g)).toHaveLength(2);
  });
});
