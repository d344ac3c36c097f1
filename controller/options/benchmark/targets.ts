/** What is measured: each Model, as its services run it, on each class of machines that could run it. Pure. */

import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { Host } from "../../../src/api/host.ts";
import { type InferenceService, inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { Model } from "../../../src/api/model.ts";
import { keyOf } from "../../../src/api/names.ts";
import type { BackendRevision } from "../../../src/capacity/backend.ts";
import { runningOn, subjectOf, subjectsOnHosts } from "../../../src/capacity/benchmark/subject.ts";
import { type BenchmarkSubject, benchmarkKey } from "../../../src/capacity/benchmark/table.ts";
import { effectiveSpec } from "../../../src/capacity/effective-spec.ts";
import { hostFacts } from "../../../src/capacity/placement/host-facts.ts";
import { engineDescription } from "../../../src/engines/registry.ts";
import type { Node } from "../../../src/kube/workload-objects.ts";
import { isReadByHost, isRemote, parseSource, publicSource } from "../../../src/models/source/parse.ts";
import { compareText } from "../../../src/util/text.ts";
import type { PodsSettings } from "../../pods/workload/contract.ts";
import { gpusOf } from "../../pods/workload/gpus.ts";
import { imageOf } from "../../pods/workload/images.ts";
import { areTolerated, nodeAdmits } from "../../pods/workload/node-admission.ts";
import { tolerationsOf } from "../../pods/workload/pod.ts";
import { runtimeOf, withPodBackend } from "../../pods/workload/resolve.ts";
import { buildOfImage } from "./job.ts";

export interface ClassedHost {
  readonly host: Host;
  readonly deviceClass: string;
  /** True if a replica is on the host. */
  readonly isBusy: boolean;
}

export interface ClassedNode {
  readonly node: Node;
  readonly deviceClass: string;
  /** Memory of each GPU, if it is known. */
  readonly gpuBytes?: number | undefined;
  /** Number of its devices that pods of services request, by resource. */
  readonly inUse: ReadonlyMap<string, number>;
}

export interface TargetWorld {
  readonly models: readonly Model[];
  readonly servicesOf: (model: Model) => readonly InferenceService[];
  /** Content of the BackendRuntime that a service names, if it is known. */
  readonly backendOf: (service: InferenceService) => BackendRevision | undefined;
  readonly hosts: readonly ClassedHost[];
  readonly nodes: readonly ClassedNode[];
  readonly settings: PodsSettings;
}

/** A machine that can measure a target now, and the build that it runs. */
export type Candidate = {
  readonly name: string;
  readonly build: string | undefined;
  readonly hasWeights: boolean;
  /** The Model that is measured, with its own service: nothing of another namespace is used for it. */
  readonly model: Model;
} & (
  | { readonly on: "Hosts"; readonly isBusy: boolean }
  | { readonly on: "Nodes"; readonly node: Node; readonly service: InferenceService | undefined }
);

export type NameFilter = (machine: string) => boolean;

/** One result: a subject on a class of machines. */
export interface Target {
  readonly key: string;
  readonly deviceClass: string;
  readonly subject: BenchmarkSubject;
  /** The oldest Model with the content. */
  readonly model: Model;
  /** `namespace/name` of all Models with the content. */
  readonly models: readonly string[];
  /** False if its Models exclude it from benchmarks; earlier results are shown nevertheless. */
  readonly isWanted: boolean;
  /** Builds that machines of the class run. Undefined if one of them does not report its build. */
  readonly builds: ReadonlySet<string> | undefined;
  /** The machines that can measure it now, the best first; with a filter only those of these names, which is much faster. */
  readonly candidates: (isRequested?: NameFilter) => readonly Candidate[];
}

/** Sorted by the age of the Models, then by key. */
export function targetsOf(world: TargetWorld): Target[] {
  const targets = new Map<string, Target>();
  const hosts = byClass(
    world.hosts
      .map((one) => ({ ...one, ...factsOf(one.host) }))
      .sort((a, b) => compareText(a.host.metadata.name, b.host.metadata.name)),
  );
  const nodes = byClass(
    world.nodes.toSorted((a, b) => compareText(a.node.metadata.name, b.node.metadata.name)),
  );
  const models = world.models.filter((model) => !isBeingDeleted(model)).toSorted(byAge);
  for (const model of models) {
    const services = world.servicesOf(model).filter((service) => !isBeingDeleted(service));
    try {
      for (const target of [
        ...onHosts(model, services, hosts, world),
        ...onNodes(model, services, nodes, world),
      ])
        targets.set(target.key, merged(targets.get(target.key), target));
    } catch {
      // A Model that cannot be read, for example its source, must not keep the others from being measured.
    }
  }
  return [...targets.values()];
}

function byAge({ metadata: a }: Model, { metadata: b }: Model): number {
  const order = compareText(a.creationTimestamp ?? "", b.creationTimestamp ?? "");
  return order || compareText(keyOf(a), keyOf(b));
}

/** Several Models may have the same content, and hosts and nodes the same class. */
function merged(before: Target | undefined, target: Target): Target {
  if (before === undefined) return target;
  return {
    ...before,
    models: [...new Set([...before.models, ...target.models])],
    isWanted: before.isWanted || target.isWanted,
    builds: before.builds && target.builds && new Set([...before.builds, ...target.builds]),
    candidates: (isRequested) => {
      const first = before.candidates(isRequested);
      const known = new Set(first.map(({ on, name }) => `${on}/${name}`));
      return [
        ...first,
        ...target.candidates(isRequested).filter(({ on, name }) => !known.has(`${on}/${name}`)),
      ];
    },
  };
}

function byClass<T extends { readonly deviceClass: string }>(
  machines: readonly T[],
): ReadonlyMap<string, T[]> {
  return Map.groupBy(machines, ({ deviceClass }) => deviceClass);
}

function targetOf(
  model: Model,
  subject: BenchmarkSubject,
  deviceClass: string,
  machines: Pick<Target, "builds"> & {
    readonly candidates: (isRequested: NameFilter) => readonly Candidate[];
  },
): Target {
  const isWanted = model.spec.benchmark?.enabled ?? true;
  return {
    key: benchmarkKey(subject, deviceClass),
    deviceClass,
    subject,
    model,
    models: [keyOf(model.metadata)],
    isWanted,
    builds: machines.builds,
    candidates: isWanted ? withMemory(machines.candidates) : () => [],
  };
}

function withMemory(compute: (isRequested: NameFilter) => readonly Candidate[]): Target["candidates"] {
  let all: readonly Candidate[] | undefined;
  return (isRequested) => {
    if (isRequested !== undefined) return compute(isRequested);
    all ??= compute(() => true);
    return all;
  };
}

/** What benchmarks read of a host. */
interface MeasuringHost {
  readonly isUsable: boolean;
  readonly budgetBytes: number;
  /** Build of each runtime, if it is reported. */
  readonly builds: ReadonlyMap<string, string | undefined>;
  /** SHA-256 of the copies, by source. */
  readonly stored: ReadonlyMap<string, readonly (string | undefined)[]>;
}

type ReadHost = ClassedHost & MeasuringHost;

/** Hosts are read often, and a watch delivers a new object with each change. */
const readHosts = new WeakMap<Host, MeasuringHost>();

function factsOf(host: Host): MeasuringHost {
  const known = readHosts.get(host);
  if (known !== undefined) return known;
  const { ready, reachable, isLost, cordon, flapping, budget } = hostFacts(host);
  const isUp = ready.status === "True" && reachable.status === "True";
  const { runtimes = [], models = [] } = host.status ?? {};
  const stored = Map.groupBy(models, ({ source }) => source);
  const facts = {
    isUsable: isUp && !isLost && cordon === undefined && flapping === undefined,
    budgetBytes: budget.known ? budget.bytes : Number.POSITIVE_INFINITY,
    builds: new Map(runtimes.map(({ name, version }) => [name, version])),
    stored: new Map(
      [...stored].map(([source, copies]) => [source, copies.map(({ sha256 }) => sha256?.toLowerCase())]),
    ),
  };
  readHosts.set(host, facts);
  return facts;
}

function onHosts(
  model: Model,
  services: readonly InferenceService[],
  classes: ReadonlyMap<string, readonly ReadHost[]>,
  { backendOf }: Pick<TargetWorld, "backendOf">,
): Target[] {
  const subjects = subjectsOnHosts(
    model,
    services.flatMap((service) => onEngine(service, backendOf) ?? []),
  );
  if (subjects.length === 0) return [];
  const couldMeasure = hostFilter(model);
  return subjects.flatMap((subject) =>
    [...classes].flatMap(([deviceClass, hosts]) => {
      const able = hosts.filter((host) => couldMeasure(host, subject.runtime));
      if (able.length === 0) return [];
      const builds = new Set(able.map((host) => host.builds.get(subject.runtime)));
      return targetOf(model, subject, deviceClass, {
        builds: isKnown(builds) ? builds : undefined,
        candidates: (isRequested) =>
          hostCandidates(
            able.filter(({ isUsable, host }) => isUsable && isRequested(host.metadata.name)),
            model,
            subject.runtime,
          ),
      });
    }),
  );
}

/** With the engine of its BackendRuntime, which hosts run with their own build. Undefined if its content is not known. */
function onEngine(
  service: InferenceService,
  backendOf: TargetWorld["backendOf"],
): InferenceService | undefined {
  const { spec } = service;
  if (spec.backendRuntime === undefined) return service;
  const backend = backendOf(service);
  return backend && { ...service, spec: { ...spec, runtime: backend.spec.engine } };
}

function isKnown(builds: ReadonlySet<string | undefined>): builds is ReadonlySet<string> {
  return !builds.has(undefined);
}

/** True if the host has the engine, the memory, and the weights or a way to fetch them. No host gets a Secret for a benchmark only. */
function hostFilter(model: Model): (host: ReadHost, runtime: string) => boolean {
  const needsBytes = model.status?.weightsBytes ?? model.status?.sizeBytes ?? 0;
  const source = parseSource(model.spec.source);
  const isFetchable = isRemote(source) && !isReadByHost(source, model.spec.format);
  const mayFetch = isFetchable && model.spec.sourceSecretRef === undefined;
  const hasWeights = weightsFilter(model);
  return (host, runtime) =>
    host.builds.has(runtime) && host.budgetBytes >= needsBytes && (mayFetch || hasWeights(host));
}

function weightsFilter({ spec, status }: Model): (host: ReadHost) => boolean {
  const source = publicSource(spec.source);
  const sha256 = status?.sha256;
  return ({ stored }) =>
    stored.get(source)?.some((copy) => sha256 === undefined || copy === undefined || copy === sha256) ??
    false;
}

/** Idle hosts first, then those that have the weights. */
function hostCandidates(hosts: readonly ReadHost[], model: Model, runtime: string): Candidate[] {
  const hasWeights = weightsFilter(model);
  return hosts
    .map((one) => ({
      on: "Hosts" as const,
      name: one.host.metadata.name,
      build: one.builds.get(runtime),
      hasWeights: hasWeights(one),
      model,
      isBusy: one.isBusy,
    }))
    .sort((a, b) => rankOf(a) - rankOf(b));
}

function rankOf(candidate: { readonly isBusy: boolean; readonly hasWeights: boolean }): number {
  return (candidate.isBusy ? 2 : 0) + (candidate.hasWeights ? 0 : 1);
}

function onNodes(
  model: Model,
  services: readonly InferenceService[],
  classes: ReadonlyMap<string, readonly ClassedNode[]>,
  world: Pick<TargetWorld, "settings" | "backendOf">,
): Target[] {
  if (classes.size === 0 || model.status?.cache?.phase !== "Ready") return [];
  return runningOn("Pods", model, services).flatMap((service) => {
    const engine = engineInPod(model, service, world);
    const subject = engine && subjectOf(model, service, engine);
    if (engine === undefined || subject === undefined) return [];
    return [...classes].flatMap(([deviceClass, nodes]) => {
      const able = nodes.filter((node) => couldRunPod(node, model, engine));
      if (able.length === 0) return [];
      return targetOf(model, subject, deviceClass, {
        builds: new Set([engine.build]),
        candidates: (isRequested) =>
          able
            .filter((one) => isRequested(one.node.metadata.name) && isNodeOpen(one, engine))
            .map(({ node }) => ({
              on: "Nodes" as const,
              name: node.metadata.name,
              build: engine.build,
              hasWeights: true,
              model,
              node,
              service: engine.service,
            })),
      });
    });
  });
}

type EngineInPod = NonNullable<ReturnType<typeof engineInPod>>;

const UNUSED = inferenceServiceSchema.parse({ metadata: { name: "unused" }, spec: { modelRef: "unused" } });

/** Undefined if no pod can run the Model, or if its pods get their devices from resource claims. */
function engineInPod(
  model: Model,
  service: InferenceService | undefined,
  { settings, backendOf }: Pick<TargetWorld, "settings" | "backendOf">,
) {
  const { namespace, name } = model.metadata;
  const backend = service && backendOf(service);
  if (service?.spec.backendRuntime !== undefined && backend === undefined) return undefined;
  const given = service ?? {
    ...UNUSED,
    metadata: { name, namespace },
    spec: { ...UNUSED.spec, modelRef: name },
  };
  try {
    const any = withPodBackend(given, { backend, model });
    const runtime = runtimeOf(any, model);
    const gpus = gpusOf(model, any.spec);
    const pod = engineDescription(runtime)?.pod;
    if (pod?.healthPath === undefined || gpus.claims.length > 0) return undefined;
    const { accelerator, count } = gpus;
    const { image: named, backendRuntime: { version } = {} } = any.spec;
    const image = imageOf({ runtime, pod, accelerator, named, version, settings });
    // A Job has no BackendRuntime.
    const merged = effectiveSpec({ ...service, spec: any.spec }, runtime);
    const spec = backend === undefined ? merged : { ...merged, image };
    const measured = service && { ...service, spec };
    const tolerations = tolerationsOf(any.spec, gpus);
    const build = buildOfImage(image);
    return { runtime, gpus, gpusPerPod: count, image, build, tolerations, service: measured };
  } catch (error) {
    if (error instanceof MetalbridgeError) return undefined;
    throw error;
  }
}

/** Pods without a GPU are measured on nodes without GPUs, because other nodes run them only if they must. */
function couldRunPod(
  { node, deviceClass, gpuBytes }: ClassedNode,
  model: Model,
  { gpus, tolerations }: EngineInPod,
): boolean {
  const lasting = (node.spec?.taints ?? []).filter(({ key }) => !String(key).startsWith(NODE_TAINTS));
  if (!areTolerated(lasting, tolerations)) return false;
  if (gpus.count === 0) return deviceClass.startsWith("cpu-");
  const needsBytes = model.status?.weightsBytes ?? model.status?.sizeBytes ?? 0;
  if (gpuBytes !== undefined && gpuBytes * gpus.count < needsBytes) return false;
  return hasDevices(node, gpus.resources);
}

/** Prefix of the taints by which Kubernetes reports that a node is not ready, cordoned or out of resources. */
const NODE_TAINTS = "node.kubernetes.io/";

/** True if a pod could start on the node now. */
function isNodeOpen({ node, inUse }: ClassedNode, { gpus, tolerations }: EngineInPod): boolean {
  return nodeAdmits(node, tolerations) && hasDevices(node, gpus.resources, inUse);
}

function hasDevices(
  { status }: Node,
  resources: Readonly<Record<string, number>>,
  inUse?: ReadonlyMap<string, number>,
): boolean {
  return Object.entries(resources).every(
    ([name, count]) => Number(status?.allocatable?.[name] ?? 0) - (inUse?.get(name) ?? 0) >= count,
  );
}
