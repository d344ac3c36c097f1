/** What is measured: each Model, as its services run it, on each class of machines that could run it. Pure. */

import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Host } from "../../src/api/host.ts";
import { type InferenceService, inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { isBeingDeleted } from "../../src/api/metadata.ts";
import type { Model } from "../../src/api/model.ts";
import { keyOf } from "../../src/api/names.ts";
import { type BenchmarkSubject, benchmarkKey } from "../../src/capacity/benchmark/key.ts";
import { runningOn, subjectOf, subjectsOnHosts } from "../../src/capacity/benchmark/subject.ts";
import { hostBudget } from "../../src/capacity/placement/budget.ts";
import { hostFacts } from "../../src/capacity/placement/host-facts.ts";
import { engineDescription } from "../../src/engines/registry.ts";
import type { Node } from "../../src/kube/workload-objects.ts";
import { isReadByHost, isRemote, parseSource, publicSource } from "../../src/models/source/parse.ts";
import { compareText } from "../../src/util/text.ts";
import { isNodeReady } from "../service/pods/node-problems.ts";
import type { PodsSettings } from "../workload/contract.ts";
import { type GPURequest, gpusOf } from "../workload/gpus.ts";
import { imageOf } from "../workload/images.ts";
import { runtimeOf } from "../workload/resolve.ts";
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
}

export interface TargetWorld {
  readonly models: readonly Model[];
  readonly servicesOf: (model: Model) => readonly InferenceService[];
  readonly hosts: readonly ClassedHost[];
  readonly nodes: readonly ClassedNode[];
  readonly settings: PodsSettings;
}

/** A machine that can measure a target now, and the build that it runs. */
export type Candidate = {
  readonly name: string;
  readonly build: string | undefined;
  readonly hasWeights: boolean;
} & (
  | { readonly on: "Hosts"; readonly isBusy: boolean }
  | { readonly on: "Nodes"; readonly node: Node; readonly service: InferenceService | undefined }
);

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
  /** The machines that can measure it now, the best first. */
  readonly candidates: () => readonly Candidate[];
}

/** Sorted by the age of the Models, then by key. */
export function targetsOf(world: TargetWorld): Target[] {
  const targets = new Map<string, Target>();
  const hosts = byClass(world.hosts);
  const nodes = byClass(world.nodes);
  const models = world.models.filter((model) => !isBeingDeleted(model)).toSorted(byAge);
  for (const model of models) {
    const services = world.servicesOf(model).filter((service) => !isBeingDeleted(service));
    try {
      for (const target of [
        ...onHosts(model, services, hosts),
        ...onNodes(model, services, nodes, world.settings),
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
    candidates: () => {
      const all = [...before.candidates(), ...target.candidates()];
      return [...new Map(all.map((one) => [`${one.on}/${one.name}`, one])).values()];
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
  machines: Pick<Target, "builds" | "candidates">,
): Target {
  return {
    key: benchmarkKey(subject, deviceClass),
    deviceClass,
    subject,
    model,
    models: [keyOf(model.metadata)],
    isWanted: model.spec.benchmark?.enabled ?? true,
    ...machines,
  };
}

function onHosts(
  model: Model,
  services: readonly InferenceService[],
  classes: ReadonlyMap<string, readonly ClassedHost[]>,
): Target[] {
  const needsBytes = model.status?.weightsBytes ?? model.status?.sizeBytes ?? 0;
  return subjectsOnHosts(model, services).flatMap((subject) =>
    [...classes].flatMap(([deviceClass, hosts]) => {
      const able = hosts.filter(({ host }) => couldMeasure(host, model, subject.runtime, needsBytes));
      if (able.length === 0) return [];
      const builds = able.map(({ host }) => buildOn(host, subject.runtime));
      const known = builds.filter((build) => build !== undefined);
      return targetOf(model, subject, deviceClass, {
        builds: known.length < builds.length ? undefined : new Set(known),
        candidates: () => hostCandidates(able, model, subject.runtime),
      });
    }),
  );
}

/** True if the host has the engine, the memory, and the weights or a way to fetch them. */
function couldMeasure(host: Host, model: Model, runtime: string, needsBytes: number): boolean {
  if (!host.status?.runtimes?.some(({ name }) => name === runtime)) return false;
  const budget = hostBudget(host);
  if (budget.known && budget.bytes < needsBytes) return false;
  const source = parseSource(model.spec.source);
  return (isRemote(source) && !isReadByHost(source, model.spec.format)) || hasWeights(host, model);
}

function buildOn({ status }: Host, runtime: string): string | undefined {
  return status?.runtimes?.find(({ name }) => name === runtime)?.version;
}

function hasWeights({ status }: Host, { spec, status: known }: Model): boolean {
  const source = publicSource(spec.source);
  return (status?.models ?? []).some(
    (one) =>
      one.source === source &&
      (known?.sha256 === undefined || one.sha256 === undefined || one.sha256.toLowerCase() === known.sha256),
  );
}

/** Idle hosts first, then those that have the weights. */
function hostCandidates(able: readonly ClassedHost[], model: Model, runtime: string): Candidate[] {
  return able
    .filter(({ host }) => isUsable(host))
    .map(({ host, isBusy }) => ({
      on: "Hosts" as const,
      name: host.metadata.name,
      build: buildOn(host, runtime),
      hasWeights: hasWeights(host, model),
      isBusy,
    }))
    .sort((a, b) => rankOf(a) - rankOf(b) || compareText(a.name, b.name));
}

function rankOf(candidate: { readonly isBusy: boolean; readonly hasWeights: boolean }): number {
  return (candidate.isBusy ? 2 : 0) + (candidate.hasWeights ? 0 : 1);
}

function isUsable(host: Host): boolean {
  const { ready, reachable, isLost, cordon, flapping } = hostFacts(host);
  const isUp = ready.status === "True" && reachable.status === "True";
  return isUp && !isLost && cordon === undefined && flapping === undefined;
}

function onNodes(
  model: Model,
  services: readonly InferenceService[],
  classes: ReadonlyMap<string, readonly ClassedNode[]>,
  settings: PodsSettings,
): Target[] {
  if (classes.size === 0 || model.status?.cache?.phase !== "Ready") return [];
  return runningOn("Pods", model, services).flatMap((service) => {
    const engine = engineInPod(model, service, settings);
    const subject = engine && subjectOf(model, service, engine);
    if (engine === undefined || subject === undefined) return [];
    return [...classes].flatMap(([deviceClass, nodes]) => {
      const able = nodes.filter((node) => couldRunPod(node, model, engine.gpus));
      if (able.length === 0) return [];
      return targetOf(model, subject, deviceClass, {
        builds: new Set([engine.build]),
        candidates: () =>
          able
            .filter(({ node }) => isNodeReady(node) && node.spec?.unschedulable !== true)
            .map(({ node }) => ({
              on: "Nodes" as const,
              name: node.metadata.name,
              build: engine.build,
              hasWeights: true,
              node,
              service,
            }))
            .sort((a, b) => compareText(a.name, b.name)),
      });
    });
  });
}

/** Undefined if no pod can run the Model, or if its pods get their devices from resource claims. */
function engineInPod(model: Model, service: InferenceService | undefined, settings: PodsSettings) {
  const { namespace, name } = model.metadata;
  const any =
    service ?? inferenceServiceSchema.parse({ metadata: { name, namespace }, spec: { modelRef: name } });
  try {
    const runtime = runtimeOf(any, model);
    const gpus = gpusOf(model, any.spec);
    const pod = engineDescription(runtime)?.pod;
    if (pod?.healthPath === undefined || gpus.claims.length > 0) return undefined;
    const { accelerator, count } = gpus;
    const image = imageOf({ runtime, pod, accelerator, named: any.spec.image, settings });
    return { runtime, gpus, gpusPerPod: count, build: buildOfImage(image) };
  } catch (error) {
    if (error instanceof MetalbridgeError) return undefined;
    throw error;
  }
}

/** Pods without a GPU are measured on nodes without GPUs, because other nodes run them only if they must. */
function couldRunPod({ node, deviceClass, gpuBytes }: ClassedNode, model: Model, gpus: GPURequest): boolean {
  const { allocatable = {} } = node.status ?? {};
  if (gpus.count === 0) return deviceClass.startsWith("cpu-");
  const needsBytes = model.status?.weightsBytes ?? model.status?.sizeBytes ?? 0;
  if (gpuBytes !== undefined && gpuBytes * gpus.count < needsBytes) return false;
  return Object.entries(gpus.resources).every(([name, count]) => Number(allocatable[name] ?? 0) >= count);
}
