/** Services as pods on simulated nodes: real scheduler, kube-controller-manager and kwok; engines are not run. */
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { DEPLOYMENTS } from "../../../src/kube/kinds.ts";
import type { Deployment } from "../../../src/kube/workload-objects.ts";
import { type ControllerWork, readWork } from "../../../test/bed/controller-work.ts";
import { kubectlFor } from "../../../test/bed/kubectl.ts";
import { startKwok } from "../../../test/bed/kwok.ts";
import type { Part } from "../../../test/bed/part.ts";
import { freePort } from "../../../test/bed/ports.ts";
import { findMonitoringCrds } from "../../setup/definitions.mjs";
import { openOn } from "../beds/bed.ts";
import { measured, type ScenarioResult, summaryOf } from "../beds/measurement.ts";
import { NAMESPACE, type Plane } from "../beds/plane.ts";
import { inParallel } from "../beds/scripted-fleet.ts";
import { cpuSeconds, megabytes } from "./idle.ts";

const SERVICES_PER_NODE = 4;
const FEW = 200;
const NODES_AT_ONCE = 50;
const CHANGES = 20;
const GPU = "nvidia.com/gpu";
/** Duration of the nodes' Leases: kube-controller-manager marks a node after 50 s, and kwok renews every 30 s. */
const LEASE_SECONDS = 120;
const LIMIT_MS = 900_000;
export const PODS_SETTLE_MS = 20_000;
/** No engine that would need its weights on a volume first: that is the cost of one Model, and not of a service. */
const SPEC = {
  placement: { on: "Pods" },
  resources: { gpu: 1 },
  skipModelInit: true,
  runtime: "generic",
  image: "registry.example.com/engine:1",
  args: ["--context", "{{contextSize}}"],
};

/** A tenth of the services first, so that the cost of one change can be held against that of a large fleet. */
export async function measurePods({
  services,
}: {
  readonly services: number;
}): Promise<readonly ScenarioResult[]> {
  const nodes = Math.ceil(services / SERVICES_PER_NODE);
  await using bed = await openPods(nodes);
  const few = Math.min(FEW, Math.ceil(services / 2));
  const fewMs = await bed.create(0, few);
  const costOfFew = await measureChanges(bed, few);
  const restMs = await bed.create(few, services);
  const name = `${services} services as pods on ${nodes} nodes`;
  const costOfAll = await measureChanges(bed, services);
  const steady = await measureSteadyState(bed, name);
  const perChange = (cost: Cost) => summaryOf(cost.cpuMs).p50;
  return [
    measured(`${name}: created → all Ready`, "ms", [fewMs + restMs]),
    ...steady,
    ...[costOfFew, costOfAll].flatMap(({ count, ms, cpuMs, requests }): ScenarioResult[] => [
      measured(`one change among ${count} services as pods → its Deployment`, "ms", ms),
      measured(`one change among ${count} services as pods: controller's CPU`, "ms", cpuMs),
      measured(`one change among ${count} services as pods: its requests`, "requests", [requests]),
    ]),
    measured(
      `one change among ${services} services as pods, to one among ${few}: CPU`,
      "ratio",
      [perChange(costOfAll) / perChange(costOfFew)],
      { max: 2 },
    ),
  ];
}

export interface PodsBed extends Plane {
  readonly controller: Part;
  readonly work: () => Promise<ControllerWork>;
  readonly deploymentOf: (service: string) => Deployment | undefined;
  readonly serviceOf: (service: string) => InferenceService | undefined;
  readonly patch: (service: string, patch: object) => Promise<void>;
  /** Services from one number up to another; resolves with the ms until all of them are Ready. */
  readonly create: (from: number, to: number, specOf?: (index: number) => object) => Promise<number>;
}

export async function openPods(nodes: number): Promise<PodsBed> {
  return openOn({ scheduler: true, fsync: false }, async (plane) => {
    const { kubeconfig } = plane.controlPlane;
    const kubectl = kubectlFor(kubeconfig);
    const dir = path.join(plane.dir, "kwok");
    const kwok = plane.use(await startKwok({ kubeconfig, dir, leaseSeconds: LEASE_SECONDS }));
    const all = Array.from({ length: nodes }, (_, index) => ({
      name: `gpu-${index}`,
      taints: [{ key: GPU, value: "present", effect: "NoSchedule" }],
      capacity: { [GPU]: "8" },
    }));
    // All of one batch are created at the same time.
    for (let at = 0; at < nodes; at += NODES_AT_ONCE) await kwok.add(...all.slice(at, at + NODES_AT_ONCE));
    const monitoring: string | undefined = findMonitoringCrds();
    // Where PodMonitors are not installed the controller asks for them about every ten minutes, also in the quiet one.
    if (monitoring !== undefined) await kubectl(["create", "-f", monitoring]);
    const port = String(await freePort());
    const controller = plane.start("controller", "--health-port", port);
    await plane.createModel(plane.dir);
    const seen = watchServices(plane);
    const create: PodsBed["create"] = async (from, to, specOf = () => SPEC) => {
      const startedAt = performance.now();
      await inParallel(
        to - from,
        async (index) => void (await plane.createService(`bench-${from + index}`, specOf(from + index))),
      );
      await plane.changed.until(
        `${to} services that are Ready`,
        () => seen.ready() === to || undefined,
        LIMIT_MS,
      );
      return performance.now() - startedAt;
    };
    const patch = async (service: string, change: object) => {
      await kubectl([
        "patch",
        "inferenceservice",
        service,
        "-n",
        NAMESPACE,
        "--type=merge",
        "-p",
        JSON.stringify(change),
      ]);
    };
    return { ...plane, ...seen, controller, create, patch, work: () => readWork(Number(port)) };
  });
}

function watchServices(plane: Plane) {
  const services = plane.watch(INFERENCE_SERVICES);
  const deployments = plane.watch(DEPLOYMENTS);
  return {
    ready: () => services.list().filter(({ status }) => status?.phase === "Ready").length,
    serviceOf: (name: string) => services.get(`${NAMESPACE}/${name}`),
    deploymentOf: (name: string) => deployments.get(`${NAMESPACE}/${name}`),
  };
}

interface Cost {
  readonly count: number;
  readonly ms: readonly number[];
  readonly cpuMs: readonly number[];
  /** On average. */
  readonly requests: number;
}

/** One after the other: another context size, which is another Deployment, until the service is Ready with it. */
async function measureChanges(bed: PodsBed, count: number): Promise<Cost> {
  await pause(PODS_SETTLE_MS);
  const ms: number[] = [];
  const cpuMs: number[] = [];
  const first = await bed.work();
  for (let index = 0; index < CHANGES; index++) {
    const name = `bench-${Math.floor((index * count) / CHANGES)}`;
    const generation = bed.deploymentOf(name)?.metadata.generation;
    // Its metrics are not read meanwhile: a page of all services costs more CPU than the change.
    const before = { cpu: cpuSeconds(bed.controller.pid), at: performance.now() };
    await bed.patch(name, { spec: { contextSize: 512 + count + index } });
    await bed.changed.until(
      `a changed Deployment of ${name}`,
      () => bed.deploymentOf(name)?.metadata.generation !== generation || undefined,
    );
    ms.push(performance.now() - before.at);
    await bed.changed.until(`${name} that is Ready again`, () => {
      const { metadata, status } = bed.serviceOf(name) ?? {};
      const isCurrent = status?.observedGeneration === metadata?.generation;
      return (isCurrent && status?.phase === "Ready" && status.updatedReplicas === 1) || undefined;
    });
    await pause(1_000);
    cpuMs.push((cpuSeconds(bed.controller.pid) - before.cpu) * 1_000);
  }
  const { requests } = await bed.work();
  return { count, ms, cpuMs, requests: (requests - first.requests) / CHANGES };
}

const QUIET_MS = 60_000;

/** First nothing happens; then passes that find nothing to do, because only a label of the service has changed. */
async function measureSteadyState(bed: PodsBed, name: string): Promise<readonly ScenarioResult[]> {
  await pause(PODS_SETTLE_MS);
  const { pid } = bed.controller;
  const first = await bed.work();
  const before = { cpu: cpuSeconds(pid), at: performance.now() };
  await pause(QUIET_MS);
  const cpu = ((cpuSeconds(pid) - before.cpu) / (performance.now() - before.at)) * 100_000;
  const quiet = await bed.work();
  for (let index = 0; index < CHANGES; index++)
    await bed.patch(`bench-${index}`, { metadata: { annotations: { "example.com/note": String(index) } } });
  await pause(PODS_SETTLE_MS / 4);
  const touched = await bed.work();
  return [
    measured(
      `${name}: controller's requests in a quiet minute`,
      "requests",
      [quiet.requests - first.requests],
      { max: 0 },
    ),
    measured(
      `${name}: its requests for a pass that changes nothing`,
      "requests",
      [(touched.requests - quiet.requests) / Math.max(1, touched.passes - quiet.passes)],
      { max: 0 },
    ),
    measured(`${name}: its CPU of one core in a quiet minute`, "%", [cpu]),
    measured(`${name}: controller resident`, "MB", [megabytes(pid, "VmRSS")]),
    measured(`${name}: its peak`, "MB", [megabytes(pid, "VmHWM")]),
  ];
}
