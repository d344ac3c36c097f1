/** The Job that measures a Model on one node, with the engine as a sidecar; and the state of the Job. Pure. */
import type { BenchmarkPlan, Measurement } from "../../../src/api/benchmark.ts";
import { SPEED_SETTINGS } from "../../../src/api/engine-settings.ts";
import { type ErrorCode, MetalbridgeError } from "../../../src/api/errors.ts";
import type { Runtime } from "../../../src/api/fields/runtimes.ts";
import { ENGINE_CONTAINER, LABEL_BENCHMARK, LABEL_MODEL, LABEL_MOUNTS } from "../../../src/api/group.ts";
import { type InferenceService, inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { MODELS } from "../../../src/api/kinds.ts";
import type { Model } from "../../../src/api/model.ts";
import { keyOf } from "../../../src/api/names.ts";
import { parseBenchmarkReport } from "../../../src/capacity/benchmark/measurement.ts";
import { formatOf } from "../../../src/capacity/resolve.ts";
import { engineDescription } from "../../../src/engines/registry.ts";
import { JOBS } from "../../../src/kube/kinds.ts";
import type {
  Container,
  ContainerStatus,
  Job,
  Node,
  Pod,
  PodTemplate,
} from "../../../src/kube/workload-objects.ts";
import { truncate } from "../../../src/util/text.ts";
import { jobEndOf, newestFirst } from "../../models/cache/job.ts";
import type { PodsSettings } from "../../pods/workload/contract.ts";
import { weightsFilledByPods } from "../../pods/workload/ephemeral.ts";
import {
  MANAGED,
  namespaceOf,
  ownedBy,
  shortName,
  weightsOnVolume,
} from "../../pods/workload/model-cache.ts";
import { HOSTNAME_LABEL } from "../../pods/workload/mount-affinity.ts";
import { UNPRIVILEGED, WITHOUT_MESH } from "../../pods/workload/one-shot-pod.ts";
import { priorityClassName } from "../../pods/workload/priorities.ts";
import { buildWorkload } from "../../pods/workload/workload.ts";

const BENCH_CONTAINER = "bench";
const RESULT_PATH = "/dev/termination-log";
/** Name of the model for clients. */
const SERVED = "benchmark";
const DEADLINE_SECONDS = 1_800;
const KEPT_SECONDS = 86_400;
/** Context of the deepest measurement, and room for a prompt that is longer than intended. */
const DEPTH = 4_096;
const SPARE_TOKENS = 512;
/** The least that a service may have. */
const CONTEXT_MIN = 128;

/** Fields of a service that decide on which nodes its pods start, and with which program. */
const KEPT_FIELDS = [
  "image",
  "tolerations",
  "runtimeClassName",
  "imagePullSecrets",
  "podSecurityContext",
  "securityContext",
] as const satisfies readonly (keyof InferenceService["spec"])[];

/** Settings that change the speed of a request, or its memory and with it the node. */
const KEPT_SETTINGS = [...SPEED_SETTINGS, "cacheTypeCustomK", "cacheTypeCustomV"] as const;

export interface JobOrder {
  /** Key of the result. */
  readonly key: string;
  readonly model: Model;
  /** Service that the settings of the result come from. Absent: the defaults. */
  readonly service?: Pick<InferenceService, "spec">;
  readonly runtime: Runtime;
  readonly plan: BenchmarkPlan;
  /** Node of the device class. */
  readonly node: Pick<Node, "metadata">;
}

const JOB_PREFIX = "metalbridge-benchmark-";

/** Equal for all orders with the same key in a namespace, so only one of them runs at a time. */
export function benchmarkJobName(key: string): string {
  return shortName(`${JOB_PREFIX}${key}`, "", 63);
}

/** The Model that this controller created the Job for. Users can set the labels of their own Jobs, also in other namespaces. */
export function modelOfJob(
  { metadata: { name, namespace, ownerReferences = [] } }: Job,
  modelOf: (key: string) => Model | undefined,
): Model | undefined {
  const owner = ownerReferences.find(({ kind }) => kind === MODELS.kind);
  const model = owner && modelOf(keyOf({ namespace, name: owner.name }));
  return name.startsWith(JOB_PREFIX) && model?.metadata.uid === owner?.uid ? model : undefined;
}

/** `namespace/UID` of the Job that controls the pod; the UID is empty if there is none. */
export function jobOfPod({ metadata: { namespace, ownerReferences = [] } }: Pod): string {
  const owner = ownerReferences.find(({ kind, controller }) => kind === JOBS.kind && controller === true);
  return keyOf({ namespace, name: owner?.uid ?? "" });
}

/** Value of LABEL_BENCHMARK. */
export function benchmarkLabel(key: string): string {
  return shortName(key, "", 63);
}

/** Throws MetalbridgeError if no pod can measure the Model, for example `WeightsNotCached` until its weights are on a volume. */
export function benchmarkJob(order: JobOrder, settings: PodsSettings): Job {
  const { key, model } = order;
  const labels = {
    ...MANAGED,
    [LABEL_MODEL]: shortName(model.metadata.name, "", 63),
    [LABEL_BENCHMARK]: benchmarkLabel(key),
  };
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: benchmarkJobName(key), namespace: namespaceOf(model), labels, ...ownedBy(model) },
    spec: {
      backoffLimit: 1,
      activeDeadlineSeconds: DEADLINE_SECONDS,
      ttlSecondsAfterFinished: KEPT_SECONDS,
      // Two engines at the same time would compete for the machine.
      podReplacementPolicy: "Failed",
      podFailurePolicy: {
        rules: [{ action: "Ignore", onPodConditions: [{ type: "DisruptionTarget", status: "True" }] }],
      },
      template: templateOf(order, settings, labels),
    },
  };
}

function templateOf(
  order: JobOrder,
  settings: PodsSettings,
  labels: Readonly<Record<string, string>>,
): PodTemplate {
  const { model, runtime, node } = order;
  const { image, imagePullSecrets = [] } = settings.fetch ?? {};
  const healthPath = engineDescription(runtime)?.pod?.healthPath;
  if (image === undefined)
    throw new MetalbridgeError("BenchmarkFailed", "the controller has no image for the Job that measures", {
      summary: "set --image of the controller",
    });
  if (healthPath === undefined)
    throw new MetalbridgeError("BenchmarkFailed", `runtime ${runtime} cannot be measured in a pod`);
  const weights = weightsOnVolume(model) ?? weightsFilledByPods(model);
  if (weights === undefined)
    throw new MetalbridgeError("WeightsNotCached", `Model ${model.metadata.name} is not on a volume yet`);
  const service = measuredService(order);
  // The same code as for the pods of services, so that the engine has the same arguments and devices.
  const { deployment } = buildWorkload({ service, model, runtime, weights, replicas: 1, settings });
  const { metadata = {}, spec } = deployment.spec.template;
  const [engine] = spec.containers;
  if (engine === undefined) throw new Error("a workload without a container");
  const mounts = Object.entries(metadata.labels ?? {}).filter(([name]) => name.startsWith(LABEL_MOUNTS));
  const pullSecrets = [...(spec.imagePullSecrets ?? []), ...imagePullSecrets.map((name) => ({ name }))];
  return {
    metadata: {
      labels: { ...WITHOUT_MESH.labels, ...labels, ...Object.fromEntries(mounts) },
      annotations: WITHOUT_MESH.annotations,
    },
    spec: {
      ...spec,
      restartPolicy: "Never",
      nodeSelector: { [HOSTNAME_LABEL]: hostnameOf(node) },
      imagePullSecrets: pullSecrets.length === 0 ? undefined : pullSecrets,
      terminationGracePeriodSeconds: 10,
      initContainers: [...(spec.initContainers ?? []), sidecarOf(engine)],
      containers: [benchContainer(order, { image, healthPath, engine })],
    },
  };
}

/** A service with the settings of the order. Every other field has its default, and its pods preempt no other pod. */
function measuredService({ model, service, runtime, plan }: JobOrder): InferenceService {
  const kept = [...KEPT_FIELDS, ...KEPT_SETTINGS].map((field) => [field, service?.spec[field]] as const);
  const trained = model.status?.gguf?.contextLength ?? 0;
  const context = DEPTH + plan.tokens + SPARE_TOKENS;
  return inferenceServiceSchema.parse({
    metadata: { name: SERVED, namespace: namespaceOf(model) },
    spec: {
      ...Object.fromEntries(kept.filter(([, value]) => value !== undefined)),
      resources: gpusIn(service),
      modelRef: model.metadata.name,
      runtime,
      contextSize: trained > 0 ? Math.max(CONTEXT_MIN, Math.min(trained, context)) : context,
      promptCacheMiB: formatOf(model) === "gguf" ? 0 : undefined,
      priorityClassName: priorityClassName("batch"),
    },
  });
}

/** The resources that are part of the key. */
function gpusIn(service: JobOrder["service"]): InferenceService["spec"]["resources"] {
  const { gpu, gpuSharing } = service?.spec.resources ?? {};
  const { mode, profile } = gpuSharing ?? {};
  return { gpu, gpuSharing: mode && { mode, profile } };
}

/** Without the probes of a service: a probe that fails must not restart the engine during a measurement. */
function sidecarOf({
  livenessProbe: _,
  readinessProbe: __,
  lifecycle: ___,
  ...engine
}: Container): Container {
  return { ...engine, restartPolicy: "Always" };
}

interface BenchParts {
  readonly image: string;
  readonly healthPath: string;
  readonly engine: Container;
}

function benchContainer({ model, plan }: JobOrder, parts: BenchParts): Container {
  const { image, healthPath, engine } = parts;
  // The rest of the deadline is for the start of the pod and of the engine.
  const seconds = Math.min(plan.minSeconds ?? DEADLINE_SECONDS, DEADLINE_SECONDS / 3);
  const { sizeBytes } = model.status ?? {};
  return {
    name: BENCH_CONTAINER,
    image,
    args: [
      "bench-job",
      `--url=http://127.0.0.1:${engine.ports?.[0]?.containerPort}`,
      `--model=${SERVED}`,
      `--health=${healthPath}`,
      `--build=${buildOfImage(engine.image)}`,
      `--warmups=${plan.warmups}`,
      `--runs=${plan.runs}`,
      `--tokens=${plan.tokens}`,
      `--seconds=${seconds}`,
      ...(sizeBytes === undefined ? [] : [`--size-bytes=${sizeBytes}`]),
      `--result=${RESULT_PATH}`,
    ],
    resources: { requests: { cpu: "100m", memory: "128Mi" }, limits: { memory: "512Mi" } },
    terminationMessagePath: RESULT_PATH,
    terminationMessagePolicy: "FallbackToLogsOnError",
    securityContext: UNPRIVILEGED,
  };
}

/** The value by which a Job selects its node. */
export function hostnameOf({ metadata }: Pick<Node, "metadata">): string {
  return metadata.labels?.[HOSTNAME_LABEL] ?? metadata.name;
}

/** Build of the engine in an image, by which a result expires: the first digits of the digest, else the tag. */
export function buildOfImage(image: string): string {
  const digest = /@sha256:([0-9a-f]{12})/.exec(image)?.[1];
  return digest ?? /:([^:/]+)$/.exec(image)?.[1] ?? "latest";
}

/** The reason why the pod does not measure yet. */
export interface JobWait {
  readonly why: string;
  /** No node has room for the pod. */
  readonly isUnscheduled?: boolean;
}

export type JobState =
  | ({ readonly at: "pending" } & JobWait)
  | { readonly at: "running" }
  | { readonly at: "done"; readonly measurement: Measurement }
  /** Final. The caller deletes the Job, because a pod whose engine crashes exists until the deadline. */
  | {
      readonly at: "failed";
      readonly code: ErrorCode;
      readonly message: string;
      /** True if no node had room for the pod until the deadline, which says nothing about the Model. */
      readonly isUnscheduled?: boolean;
    };

/** `lastWait` is that of an earlier `pending`: at the deadline the API server deletes the pod. */
export function readBenchmarkJob(job: Job, pods: readonly Pod[], lastWait?: JobWait): JobState {
  const sorted = newestFirst(pods);
  for (const pod of sorted) {
    const report = parseBenchmarkReport(benchEnd(pod)?.message);
    if (report !== undefined && !("failed" in report))
      return {
        at: "done",
        measurement: { ...report, loadSeconds: loadSecondsOf(pod) ?? report.loadSeconds },
      };
  }
  const [pod] = sorted;
  const crash = pod && engineCrash(pod);
  if (crash !== undefined) return failed("BenchmarkEngineFailed", crash);
  const end = jobEndOf(job);
  if (end !== undefined) return jobFailure(job, pod, lastWait);
  if (pod === undefined) return { at: "pending", why: "the Job has no pod yet" };
  const wait = waitOf(pod);
  return wait === undefined ? { at: "running" } : { at: "pending", ...wait };
}

function jobFailure(job: Job, pod: Pod | undefined, lastWait: JobWait | undefined): JobState {
  const condition = job.status?.conditions?.find(
    ({ type, status }) => type === "Failed" && status === "True",
  );
  if (condition?.reason === "DeadlineExceeded") {
    const wait = (pod && waitOf(pod)) ?? lastWait;
    const seconds = job.spec.activeDeadlineSeconds ?? DEADLINE_SECONDS;
    const detail = wait === undefined ? "" : `; last: ${wait.why}`;
    return {
      ...failed("BenchmarkTimedOut", `the benchmark did not finish within ${seconds} s${detail}`),
      isUnscheduled: wait?.isUnscheduled,
    };
  }
  const end = pod && benchEnd(pod);
  const report = parseBenchmarkReport(end?.message);
  if (report !== undefined && "failed" in report) return failed("BenchmarkFailed", report.failed);
  const reason = pod?.status?.reason ?? end?.reason ?? condition?.reason ?? "Error";
  const detail = pod?.status?.message ?? end?.message ?? condition?.message;
  return failed(
    "BenchmarkFailed",
    `the Job left no result (${reason})${detail ? `: ${lastLine(detail)}` : ""}`,
  );
}

function failed(code: ErrorCode, message: string): Extract<JobState, { at: "failed" }> {
  return { at: "failed", code, message: truncate(message, 400) };
}

/** The last exit of an engine, which the kubelet restarts. An engine that ends after its client is no crash. */
function engineCrash(pod: Pod): string | undefined {
  const { state, lastState, restartCount = 0 } = engineStatus(pod) ?? {};
  const end = lastState?.terminated ?? (benchEnd(pod) === undefined ? state?.terminated : undefined);
  if (end === undefined || (restartCount === 0 && end.exitCode === 0)) return undefined;
  const reason = end.reason === undefined || end.reason === "Error" ? "" : ` (${end.reason})`;
  const log = end.message === undefined ? "" : `: ${lastLine(end.message)}`;
  return `the engine exited with code ${end.exitCode}${reason}${log}`;
}

function lastLine(text: string): string {
  return text.trim().split("\n").slice(-3).join(" | ");
}

function waitOf({ status = {} }: Pod): JobWait | undefined {
  const scheduled = status.conditions?.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False")
    return { why: `not scheduled: ${scheduled.message ?? scheduled.reason ?? ""}`, isUnscheduled: true };
  const statuses = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
  const stuck = statuses.find(({ state }) => !STARTING.includes(state?.waiting?.reason ?? ""));
  if (stuck !== undefined) {
    const { reason = "", message = "" } = stuck.state?.waiting ?? {};
    return { why: `container ${stuck.name}: ${reason}${message === "" ? "" : `: ${message}`}` };
  }
  const bench = statuses.find(({ name }) => name === BENCH_CONTAINER)?.state;
  return bench?.running !== undefined || bench?.terminated !== undefined
    ? undefined
    : { why: "the engine is starting" };
}

const STARTING: readonly string[] = ["", "ContainerCreating", "PodInitializing"];

/** Time from the start of the engine to the start of its client, which the kubelet starts once the engine is healthy. */
function loadSecondsOf(pod: Pod): number | undefined {
  const started = Date.parse(startOf(engineStatus(pod)) ?? "");
  const healthy = Date.parse(benchEnd(pod)?.startedAt ?? "");
  return healthy >= started ? (healthy - started) / 1_000 : undefined;
}

function startOf(status: ContainerStatus | undefined): string | undefined {
  return status?.state?.running?.startedAt ?? status?.state?.terminated?.startedAt;
}

function engineStatus({ status }: Pod): ContainerStatus | undefined {
  return status?.initContainerStatuses?.find(({ name }) => name === ENGINE_CONTAINER);
}

function benchEnd({ status }: Pod) {
  return status?.containerStatuses?.find(({ name }) => name === BENCH_CONTAINER)?.state?.terminated;
}
