/** Benchmarks of Models: observes machines, Jobs and results, and applies the plan. */

import type { BenchmarkOrder } from "../../../src/api/benchmark.ts";
import { parseQuantity } from "../../../src/api/fields/quantity.ts";
import { LABEL_BENCHMARK, MANAGER_BENCHMARK, NAMESPACE_SYSTEM } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { HOSTS, MODELS } from "../../../src/api/kinds.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { Model } from "../../../src/api/model.ts";
import { keyOf } from "../../../src/api/names.ts";
import { BENCHMARKS_NAME } from "../../../src/capacity/benchmark/table.ts";
import { deviceClassOf } from "../../../src/capacity/devices/devices.ts";
import { deviceClassOfHost } from "../../../src/capacity/devices/host.ts";
import { BENCHMARKS_KEY, benchmarksIn } from "../../../src/cluster/benchmarks.ts";
import { createGrouping } from "../../../src/cluster/grouping.ts";
import { hardwareOf } from "../../../src/cluster/nodes.ts";
import { CONFIG_MAPS, JOBS, PODS } from "../../../src/kube/kinds.ts";
import type { ConfigMap } from "../../../src/kube/objects.ts";
import type { Recheck } from "../../../src/kube/queue.ts";
import type { ApiFailure, KubeObject, Reflector } from "../../../src/kube/types.ts";
import { type ReflectorOptions, UNWATCHED } from "../../../src/kube/watch/reflector.ts";
import { hasPodEnded, type Job, type Node, type Pod } from "../../../src/kube/workload-objects.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import { momentOf } from "../../../src/util/moment.ts";
import { truncate } from "../../../src/util/text.ts";
import { ApiCallFailed, isSettled } from "../../frame/apply/failure.ts";
import { BENCHMARKED, type ModelBenchmarks } from "../../frame/option.ts";
import type { ControllerPorts } from "../../frame/ports.ts";
import { backendOf } from "../../frame/service/backend.ts";
import type { WatchedPaths, WatchOptions } from "../../frame/watches/contract.ts";
import { reportOn } from "../../frame/watches/events.ts";
import { requestsOf } from "../../pods/pods.ts";
import type { PodsSettings } from "../../pods/workload/contract.ts";
import { HOSTNAME_LABEL } from "../../pods/workload/mount-affinity.ts";
import { type Attempts, createAttempts, withRemedy } from "./attempts.ts";
import { hostnameOf, type JobWait, jobOfPod, modelOfJob, readBenchmarkJob } from "./job.ts";
import {
  type BenchmarkMemory,
  type BenchmarksPlan,
  NO_MEMORY,
  type ObservedJob,
  planBenchmarks,
  type StartedJob,
} from "./plan.ts";
import { reportsOf, speedText, unmeasuredText } from "./report.ts";
import { editsOf } from "./results.ts";
import { type ClassedHost, type ClassedNode, type Target, targetsOf } from "./targets.ts";

export interface BenchmarkJobs {
  readonly list: () => readonly Job[];
  readonly podsOf: (job: Job) => readonly Pod[];
  readonly watches: readonly (Reflector<Job> | Reflector<Pod>)[];
}

/** Watches the Jobs of benchmarks and their pods, whose status has the result. */
export function startBenchmarkJobs(
  options: WatchOptions & WatchedPaths & { readonly onChange: () => void },
): BenchmarkJobs {
  const { onChange, startReflector, ...rest } = options;
  const start = <T extends KubeObject>(own: Pick<ReflectorOptions<T>, "kind" | "onChange">) =>
    options.hostsOnly ? UNWATCHED : startReflector<T>({ ...rest, ...own, labelSelector: LABEL_BENCHMARK });
  const podsOfJob = createGrouping<Pod>((pod) => [jobOfPod(pod)]);
  const jobs = start<Job>({ kind: JOBS, onChange });
  const pods = start<Pod>({
    kind: PODS,
    onChange: (key, pod, before) => {
      podsOfJob.note(key, pod, before);
      onChange();
    },
  });
  return {
    list: jobs.list,
    podsOf: ({ metadata: { namespace, uid = "" } }) => podsOfJob.of(keyOf({ namespace, name: uid })),
    watches: [jobs, pods],
  };
}

export interface BenchmarksSettings {
  readonly isOn: boolean;
  readonly maxAgeMs: number;
}

export interface BenchmarksPorts extends ControllerPorts {
  readonly jobs: BenchmarkJobs;
  readonly podsSettings: PodsSettings;
  readonly benchmarks: BenchmarksSettings;
  /** Called for `namespace/name` of each Model whose report has changed. */
  readonly onReport: (model: string) => void;
}

export interface Benchmarks {
  readonly pass: () => Promise<Recheck | undefined>;
  /** Undefined before the first pass: the status of the Model stays as it is. */
  readonly reportOf: (model: string) => ModelBenchmarks | undefined;
}

export function createBenchmarks(ports: BenchmarksPorts): Benchmarks {
  let memory: BenchmarkMemory = NO_MEMORY;
  let reports: ReadonlyMap<string, ModelBenchmarks> = new Map();
  /** Last reason for which the pod of a Job waited, by the UID of the Job. */
  const lastWaits = new Map<string, JobWait>();
  return {
    reportOf: (model) => reports.get(model),
    pass: async () => {
      const { watches, benchmarks, podsSettings: settings } = ports;
      const models = watches.models.list();
      const hosts = watches.hosts.list();
      const servicesOf = ({ metadata }: Model) => watches.servicesOfModel.of(keyOf(metadata));
      const backendWith = (service: InferenceService) => backendOf(watches, service);
      const targets = targetsOf({
        models,
        servicesOf,
        backendOf: backendWith,
        hosts: hosts.flatMap((host) => classedHost(ports, host)),
        nodes: watches.nodes.list().flatMap((node) => classedNode(ports, node)),
        settings,
      });
      const jobs = observeJobs(ports, lastWaits);
      const table = benchmarksIn(watches.benchmarks);
      const now = momentOf(ports.clock);
      const bandwidthOfClass = ports.fitness?.bandwidthOfClass;
      const world = { targets, hosts, jobs, table, settings, bandwidthOfClass, ...benchmarks };
      const plan = planBenchmarks(world, memory, now);
      const refused = createAttempts(plan.memory.failures, now.monotonicMs);
      const { isCurrent, errors } = await apply(ports, plan, targets, refused);
      memory = { ...plan.memory, failures: refused.failures };
      for (const { target, code, message } of [...plan.failed, ...refused.found])
        report(ports, target, "Warning", code, message);
      const before = reports;
      reports = reportsOf(models, targets, plan, {
        isOn: benchmarks.isOn,
        unmeasuredOf: (model) => unmeasuredText(servicesOf(model), backendWith),
      });
      for (const [model, current] of reports)
        if (!isDeepEqual(current, before.get(model))) ports.onReport(model);
      if (errors.length > 0) throw errors[0];
      return { recheckAfterMs: isCurrent ? plan.recheckAfterMs : CONFLICT_RECHECK_MS };
    },
  };
}

/** The watch delivers the other client's change within this time. After a refusal, the next target gets the slot. */
const CONFLICT_RECHECK_MS = 1_000;

function classedHost({ watches }: BenchmarksPorts, host: Host): ClassedHost[] {
  const deviceClass = deviceClassOfHost(host);
  if (deviceClass === undefined || isBeingDeleted(host)) return [];
  return [{ host, deviceClass, isBusy: watches.replicasOfHost.of(host.metadata.name).length > 0 }];
}

function classedNode({ watches }: BenchmarksPorts, node: Node): ClassedNode[] {
  const { name } = node.metadata;
  const { devices } = hardwareOf(node, watches);
  const deviceClass = deviceClassOf(devices);
  if (deviceClass === undefined || isBeingDeleted(node)) return [];
  return [
    { node, deviceClass, gpuBytes: devices.gpu?.bytesEach, inUse: devicesInUse(watches.podsOfNode.of(name)) },
  ];
}

/** Number of devices that pods of services request, by resource. */
function devicesInUse(pods: readonly Pod[]): ReadonlyMap<string, number> {
  const inUse = new Map<string, number>();
  const requests = pods.filter((pod) => !hasPodEnded(pod)).flatMap((pod) => [...requestsOf(pod)]);
  for (const [name, quantity] of requests)
    if (name.includes("/")) inUse.set(name, (inUse.get(name) ?? 0) + (parseQuantity(quantity) ?? 0));
  return inUse;
}

function observeJobs({ jobs, watches }: BenchmarksPorts, lastWaits: Map<string, JobWait>): ObservedJob[] {
  const all = jobs.list().filter((job) => !isBeingDeleted(job));
  const uids = new Set(all.map(({ metadata }) => metadata.uid));
  for (const uid of lastWaits.keys()) if (!uids.has(uid)) lastWaits.delete(uid);
  const nodes = watches.nodes.list();
  return all.flatMap((job) => {
    const model = modelOfJob(job, watches.models.get);
    if (model === undefined) return [];
    const { uid = "" } = job.metadata;
    const state = readBenchmarkJob(job, jobs.podsOf(job), lastWaits.get(uid));
    if (state.at === "pending") lastWaits.set(uid, state);
    if (state.at === "running") lastWaits.delete(uid);
    const hostname = job.spec.template.spec.nodeSelector?.[HOSTNAME_LABEL] ?? "";
    const node = nodes.find((one) => hostnameOf(one) === hostname);
    return { job, model, state, node: node?.metadata.name ?? hostname };
  });
}

interface Applied {
  /** False if another client wrote first, or the API server refused a Job: another pass is needed soon. */
  readonly isCurrent: boolean;
  readonly errors: readonly unknown[];
}

/** Attempts every write: a namespace or a Host that refuses one must not stop the others. */
async function apply(
  ports: BenchmarksPorts,
  plan: BenchmarksPlan,
  targets: readonly Target[],
  refused: Attempts,
): Promise<Applied> {
  const errors: unknown[] = [];
  let isCurrent = true;
  const attempt = async (write: () => Promise<boolean>) => {
    try {
      isCurrent = (await write()) && isCurrent;
    } catch (error) {
      errors.push(error);
    }
  };
  await attempt(() => writeTable(ports, plan, targets));
  for (const host of ports.watches.hosts.list())
    await attempt(() => writeOrder(ports, host, plan.orders.get(host.metadata.name)));
  for (const job of plan.deleteJobs) await attempt(() => deleteJob(ports, job));
  for (const started of plan.createJobs) await attempt(() => createJob(ports, started, refused));
  return { isCurrent, errors };
}

async function deleteJob({ client }: BenchmarksPorts, { metadata }: Job): Promise<boolean> {
  const { name, namespace, uid } = metadata;
  const removed = await client.remove(JOBS, { name, namespace }, { uid, propagation: "Background" });
  return isSettled(`delete Job ${namespace}/${name}`, removed);
}

async function createJob(
  { client, log }: BenchmarksPorts,
  { job, target, machine }: StartedJob,
  refused: Attempts,
): Promise<boolean> {
  const name = keyOf(job.metadata);
  const created = await client.create(JOBS, job);
  if (created.ok) log.info({ job: name }, "benchmark Job created");
  if (created.ok || created.error.kind === "alreadyExists") return true;
  if (!isRefusal(created.error)) throw new ApiCallFailed(`create Job ${name}`, created.error);
  const message = truncate(`Job ${name} was refused: ${created.error.message}`, 400);
  refused.fail(target, machine, withRemedy("BenchmarkFailed", message));
  return false;
}

/** True if a quick retry would get the same answer, for example from a quota or an admission policy. */
function isRefusal({ kind, status }: ApiFailure): boolean {
  const isTemporary = ["conflict", "throttled", "unauthorized"].includes(kind);
  return status >= 400 && status < 500 && !isTemporary;
}

async function writeOrder(
  { client, log }: BenchmarksPorts,
  host: Host,
  order: BenchmarkOrder | undefined,
): Promise<boolean> {
  if (isDeepEqual(order, host.status?.benchmark?.order)) return true;
  const { name } = host.metadata;
  const status = order === undefined ? {} : { benchmark: { order } };
  const result = await client.apply(HOSTS, { metadata: { name }, status } as Host, {
    manager: MANAGER_BENCHMARK,
    subresource: "status",
    current: host,
  });
  if (result.ok) log.info({ host: name, benchmark: order?.key }, "benchmark of a host set");
  return isSettled(`write the benchmark of Host ${name}`, result);
}

/** Changes only the keys of the plan: users may add and edit others. */
async function writeTable(
  ports: BenchmarksPorts,
  { store, remove }: BenchmarksPlan,
  targets: readonly Target[],
): Promise<boolean> {
  const { client, watches, log } = ports;
  const current = watches.benchmarks.get(BENCHMARKS_KEY);
  const keys = new Set(targets.map(({ key }) => key));
  const { operations, dropped } = editsOf(current?.data ?? {}, store, remove, (key) => keys.has(key));
  if (operations.length === 0) return true;
  if (dropped.length > 0)
    log.warn({ entries: dropped }, `ConfigMap ${BENCHMARKS_NAME} is full, entries are removed`);
  const ref = { name: BENCHMARKS_NAME, namespace: NAMESPACE_SYSTEM };
  const entries = operations.flatMap((one) =>
    one.op === "add" ? [[one.path.slice("/data/".length), one.value]] : [],
  );
  const result =
    current === undefined
      ? await client.create<ConfigMap>(CONFIG_MAPS, { metadata: ref, data: Object.fromEntries(entries) })
      : await client.jsonPatch(CONFIG_MAPS, ref, [
          { op: "test", path: "/metadata/resourceVersion", value: current.metadata.resourceVersion },
          ...(current.data === undefined ? [{ op: "add" as const, path: "/data", value: {} }] : []),
          ...operations,
        ]);
  if (!result.ok && ["conflict", "alreadyExists", "notFound"].includes(result.error.kind)) return false;
  if (!result.ok) throw new ApiCallFailed(`write ConfigMap ${BENCHMARKS_NAME}`, result.error);
  for (const [key, stored] of store) {
    const target = targets.find((one) => one.key === key);
    const note = `measured ${speedText(stored)} on ${stored.deviceClass} (${stored.machine})`;
    if (target !== undefined && current?.data?.[key] !== JSON.stringify(stored))
      report(ports, target, "Normal", BENCHMARKED, note);
  }
  return true;
}

function report(
  { record, log, watches }: BenchmarksPorts,
  { key, models }: Target,
  type: "Normal" | "Warning",
  reason: string,
  note: string,
): void {
  log.info({ benchmark: key, reason }, note);
  for (const name of models) {
    const model = watches.models.get(name);
    if (model !== undefined)
      reportOn(record, MODELS, model, { type, reason, action: "Benchmark", note: truncate(note, 1_000) });
  }
}
