/** Services of BackendRuntimes as pods on simulated nodes: what a quiet pass and a changed BackendRuntime cost, and admission. */
import { setTimeout as pause } from "node:timers/promises";
import type { BackendRuntime } from "../../../src/api/backend-runtime.ts";
import { API_VERSION } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { BACKEND_RUNTIMES, INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { serviceAnywhere } from "../../../test/bed/manifests.ts";
import { must } from "../../../test/bed/must.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
import { openPods, PODS_SETTLE_MS, type PodsBed } from "./pods.ts";

const SERVICES = 500;
const RUNTIMES = 10;
const SERVICES_PER_NODE = 4;
const OWN = SERVICES / RUNTIMES;
const PASSES = 50;
const ADMISSIONS = 300;
/** One service after another, each until its pod is replaced. */
const ROLLOUT_LIMIT_MS = 900_000;

export async function measureBackends(): Promise<readonly ScenarioResult[]> {
  await using bed = await openPods(Math.ceil(SERVICES / SERVICES_PER_NODE));
  for (let index = 0; index < RUNTIMES; index++)
    must(await bed.client.create(BACKEND_RUNTIMES, backend(index)));
  const createdMs = await bed.create(0, SERVICES, specOf);
  await pause(PODS_SETTLE_MS);
  const name = `${SERVICES} services of ${RUNTIMES} BackendRuntimes`;
  return [
    measured(`${name}: created → all Ready`, "ms", [createdMs]),
    await measurePasses(bed, name),
    ...(await measureChange(bed, name)),
    ...(await measureAdmissions(bed)),
  ];
}

function backendName(index: number): string {
  return `engine-${index % RUNTIMES}`;
}

function backend(index: number, flag = "--first"): BackendRuntime {
  const spec = {
    image: `registry.example.com/${backendName(index)}:1`,
    args: ["--model-name", "{{ .ModelName }}", "--port", "{{ .Port }}", flag],
    recommendedConfigs: [{ name: "default", args: ["--slots", "{{slots}}"] }],
  };
  const metadata = { name: backendName(index) };
  return { apiVersion: API_VERSION, kind: "BackendRuntime", metadata, spec } as unknown as BackendRuntime;
}

function specOf(index: number): object {
  return {
    placement: { on: "Pods" },
    resources: { gpu: 1 },
    skipModelInit: true,
    backendRuntime: { name: backendName(index) },
  };
}

/** Passes that find nothing to do, because only an annotation of the service has changed. */
async function measurePasses(bed: PodsBed, name: string): Promise<ScenarioResult> {
  const before = await bed.work();
  for (let index = 0; index < PASSES; index++)
    await bed.patch(`bench-${index}`, { metadata: { annotations: { "example.com/note": String(index) } } });
  await pause(PODS_SETTLE_MS / 4);
  const after = await bed.work();
  const requests = (after.requests - before.requests) / Math.max(1, after.passes - before.passes);
  return measured(`${name}: requests of a pass that changes nothing`, "requests", [requests], { max: 0 });
}

/** Another argument of one BackendRuntime: Deployments of its own services change, and no others. */
async function measureChange(bed: PodsBed, name: string): Promise<readonly ScenarioResult[]> {
  const generations = () =>
    Array.from({ length: SERVICES }, (_, index) => bed.deploymentOf(`bench-${index}`)?.metadata.generation);
  const before = generations();
  const startedAt = performance.now();
  const changed = backend(0, "--second");
  must(await bed.client.apply(BACKEND_RUNTIMES, changed, { manager: "metalbridge-bench" }));
  const isOwn = (index: number) => index % RUNTIMES === 0;
  const rolled = () => generations().map((generation, index) => generation !== before[index]);
  await bed.changed.until(
    `${OWN} services with the changed BackendRuntime`,
    () => rolled().every((is, index) => is || !isOwn(index)) || undefined,
    ROLLOUT_LIMIT_MS,
  );
  const rolledMs = performance.now() - startedAt;
  await pause(PODS_SETTLE_MS);
  const others = rolled().filter((is, index) => is && !isOwn(index)).length;
  return [
    measured(`${name}: one changed → its ${OWN} services updated, one after another`, "ms", [rolledMs]),
    measured(`${name}: one changed: services of others that were updated`, "services", [others], { max: 0 }),
  ];
}

/** Dry runs, which validate and store nothing. */
async function measureAdmissions({ client }: PodsBed): Promise<readonly ScenarioResult[]> {
  const runtimes: number[] = [];
  const services: number[] = [];
  for (let turn = 0; turn < ADMISSIONS; turn++) {
    const runtime = { ...backend(turn), metadata: { name: `dry-${turn}` } };
    const service = serviceAnywhere(`dry-${turn}`, {
      modelRef: "bench",
      extraArgs: undefined,
      ...specOf(turn),
    });
    const first = performance.now();
    must(await client.create(BACKEND_RUNTIMES, runtime, { isDryRun: true }));
    const second = performance.now();
    must(await client.create(INFERENCE_SERVICES, service as InferenceService, { isDryRun: true }));
    runtimes.push(second - first);
    services.push(performance.now() - second);
  }
  return [
    measured("admission of a BackendRuntime", "ms", runtimes, { p99: 20 }),
    measured("admission of a service with a BackendRuntime", "ms", services, { p99: 20 }),
  ];
}
