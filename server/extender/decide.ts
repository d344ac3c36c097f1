/** What the extender decides about the nodes for one pod: which cannot run its model, and how good the others are. Pure. */
import { parseQuantity } from "../../src/api/fields/quantity.ts";
import type { Flavor } from "../../src/api/flavors.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import { keyOf } from "../../src/api/names.ts";
import { speedsByClass, subjectOf } from "../../src/capacity/benchmark/subject.ts";
import type { BenchmarkTable } from "../../src/capacity/benchmark/table.ts";
import {
  ACCELERATOR_OF_VENDOR,
  type Devices,
  type GpuVendor,
  vendorOfAccelerator,
} from "../../src/capacity/devices/devices.ts";
import { effectiveSpec } from "../../src/capacity/effective-spec.ts";
import type { KernelNeed } from "../../src/capacity/fitness.ts";
import { flavorsOf } from "../../src/capacity/flavors/narrow.ts";
import { isPartlyOffloaded } from "../../src/capacity/offload.ts";
import { kernelMismatch, kernelNeedOf } from "../../src/capacity/quantization-kernels.ts";
import { formatOf } from "../../src/capacity/resolve.ts";
import {
  type ScoreInputs,
  type ScoreWeights,
  scoreMachine,
  scoreOf,
  scoreRank,
  scoreScale,
} from "../../src/capacity/score.ts";
import { toEngineSettings } from "../../src/capacity/template.ts";
import { engineDescription, runtimesFor } from "../../src/engines/registry.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { type ExtenderPod, MAX_SCORE } from "./protocol.ts";

/** What is known about a node. */
export interface NodeFacts {
  readonly devices: Devices;
  readonly deviceClass: string | undefined;
  /** Share of its GPUs' time that is in use, from 0 to 1. */
  readonly utilization: number | undefined;
  readonly cost: number | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

/** What a pod of a service requires of its node. */
export interface ExtenderNeed {
  /** `namespace/name` of the Model. */
  readonly model: string;
  readonly vendor: GpuVendor | undefined;
  readonly gpus: number;
  /** Undefined if it is unknown, or if the service keeps a part of the model in the node's memory. */
  readonly memoryPerGpu: NeededMemory | undefined;
  /** Memory of the MIG slice that the pod requests by its profile. */
  readonly sliceBytes: number | undefined;
  /** What the quantization needs of NVIDIA's GPUs. */
  readonly kernel: KernelNeed | undefined;
  /** Measured tokens per second by device class. */
  readonly speeds: Readonly<Record<string, number>>;
  /** Among which the scheduler chooses, in order of preference; empty if there is no choice. */
  readonly flavors: readonly OfferedFlavor[];
}

interface NeededMemory {
  /** What the Model states, or the weights. */
  readonly bytes: number;
  /** A GPU with less can never run the model. */
  readonly minBytes: number;
}

const GIB = 1024 ** 3;
/** A GPU that is sold with 24 GB has up to a tenth less. */
const MIN_SHARE_OF_STATED = 0.9;
/** Engines keep embeddings in the node's memory. */
const MIN_SHARE_OF_WEIGHTS = 0.8;

const VENDOR_OF_DOMAIN: Readonly<Record<string, GpuVendor>> = {
  "nvidia.com": "NVIDIA",
  "amd.com": "AMD",
  "gpu.intel.com": "Intel",
};

export function needOf(
  pod: ExtenderPod,
  service: InferenceService,
  model: Model,
  table: BenchmarkTable,
): ExtenderNeed {
  const { hardware } = model.spec;
  const requested = gpusRequested(pod, hardware?.gpu?.resourceName);
  const stated = service.spec.resources?.gpu ?? hardware?.gpu?.count ?? 1;
  const hasClaims = (pod.spec.resourceClaims ?? []).length > 0;
  const gpus = requested.count > 0 ? requested.count : hasClaims ? stated : 0;
  const vendor = requested.vendor ?? vendorOfAccelerator(hardware?.accelerator);
  const accelerator = (gpus > 0 && vendor && ACCELERATOR_OF_VENDOR[vendor]) || "cpu";
  // The controller keeps the runtime of pods that run, and reports it.
  const { spec, status } = service;
  const others = runtimesFor(formatOf(model), accelerator, spec.mode ?? "chat");
  const runtime = [spec.runtime, status?.runtime, ...others].find((one) => one !== undefined && inPods(one));
  const image = pod.spec.containers?.[0]?.image;
  const effective = { ...service, spec: effectiveSpec(service, runtime) };
  const subject = runtime && subjectOf(model, service, { runtime, gpusPerPod: gpus, image });
  return {
    model: keyOf(model.metadata),
    vendor,
    gpus,
    memoryPerGpu: gpus === 0 ? undefined : memoryPerGpu(effective, model, gpus),
    sliceBytes: requested.sliceBytes,
    kernel: vendor === "NVIDIA" ? kernelNeedOf(effective.spec, model) : undefined,
    speeds: speedsByClass(table, subject),
    flavors: flavorsOffered(pod, service, model),
  };
}

function inPods(runtime: Parameters<typeof engineDescription>[0]): boolean {
  return engineDescription(runtime)?.pod !== undefined;
}

/** GPUs of the pod's containers. A resource of another name says nothing about the vendor. */
function gpusRequested({ spec }: ExtenderPod, resourceName: string | undefined) {
  let count = 0;
  let vendor: GpuVendor | undefined;
  let sliceBytes: number | undefined;
  for (const { resources } of spec.containers ?? []) {
    for (const [name, quantity] of Object.entries({ ...resources?.requests, ...resources?.limits })) {
      const found = VENDOR_OF_DOMAIN[name.split("/", 1)[0] ?? ""];
      if (found === undefined && name !== resourceName) continue;
      vendor = found ?? vendor;
      count += Math.floor(parseQuantity(quantity) ?? 0);
      const gigabytes = Number(/^nvidia\.com\/mig-\d+g\.(\d+)gb/.exec(name)?.[1]);
      if (gigabytes > 0) sliceBytes = gigabytes * GIB;
    }
  }
  return { count, vendor, sliceBytes };
}

function memoryPerGpu(
  { spec }: InferenceService,
  { spec: { hardware }, status }: Model,
  gpus: number,
): NeededMemory | undefined {
  const { memory, layers } = hardware?.gpu ?? {};
  const stated = memory === undefined ? undefined : parseQuantity(memory);
  if (stated !== undefined && stated > 0) return { bytes: stated, minBytes: stated * MIN_SHARE_OF_STATED };
  const settings = toEngineSettings(spec, { gguf: status?.gguf, gpuLayers: layers });
  if (status?.weightsBytes === undefined || isPartlyOffloaded(spec, settings)) return undefined;
  const bytes = status.weightsBytes / gpus;
  return { bytes, minBytes: bytes * MIN_SHARE_OF_WEIGHTS };
}

/** Why the node can never run the pod, whatever else runs there; undefined if it can, or if too little is known. */
export function mismatchOf(need: ExtenderNeed, { devices: { gpu } }: NodeFacts): string | undefined {
  if (need.gpus === 0 || gpu === undefined || gpu.hasOtherVendors === true) return undefined;
  const { vendor, memoryPerGpu: needed, sliceBytes } = need;
  if (vendor !== undefined && gpu.vendor !== vendor)
    return `GPU vendor is ${gpu.vendor}, the model needs ${vendor}`;
  const tooOld = kernelMismatch(need.kernel, gpu.arch);
  if (tooOld !== undefined) return tooOld;
  const bytes = sliceBytes ?? gpu.bytesEach;
  if (needed === undefined || bytes === undefined || bytes >= needed.minBytes) return undefined;
  const what = sliceBytes !== undefined || gpu.isSliced === true ? "MIG slice" : "GPU";
  return `${what} has ${formatBytes(bytes)} of memory, the model needs ${formatBytes(needed.bytes)}`;
}

export interface NodeScores {
  /** From 0 to MAX_SCORE, in the order of the names. */
  readonly scores: readonly number[];
  /** Explains the score of the node at this index. */
  readonly why: (index: number) => string;
}

/** Unknown nodes get the neutral value of every term. */
export function scoreCandidates(
  names: readonly string[],
  { speeds, flavors }: ExtenderNeed,
  factsOf: (name: string) => NodeFacts | undefined,
  weights: ScoreWeights,
): NodeScores {
  const measured = new Map(
    Object.entries(speeds).map(([deviceClass, value]) => [deviceClass, { value, basis: "measured" }]),
  );
  const figures = names.map((name): ScoreInputs => {
    const facts = factsOf(name);
    if (facts === undefined) return UNKNOWN;
    const { deviceClass = "", utilization, cost } = facts;
    return { tokensPerSecond: measured.get(deviceClass), utilization, cost };
  });
  const scale = scoreScale(figures);
  const flavorOf = (index: number) => flavorIndex(flavors, factsOf(names[index] ?? "")?.labels);
  return {
    scores: figures.map((one, index) =>
      scoreOnFlavor(scoreRank(scoreOf(one, scale, weights), weights), flavorOf(index), flavors.length),
    ),
    why: (index) => {
      const { why } = scoreMachine(
        { name: names[index] ?? "", ...(figures[index] ?? UNKNOWN) },
        scale,
        weights,
      );
      const flavor = flavors[flavorOf(index) ?? -1];
      return flavor === undefined ? why : `flavor ${flavor.name}, ${why}`;
    },
  };
}

const UNKNOWN: ScoreInputs = {};

/** A flavor that the required terms of a pod allow. */
interface OfferedFlavor {
  readonly name: string;
  readonly nodeSelector: Readonly<Record<string, string>>;
}

/** In order of preference. Empty unless the pod may run on several flavors. */
function flavorsOffered(
  pod: ExtenderPod,
  { spec }: InferenceService,
  model: Model,
): readonly OfferedFlavor[] {
  const terms =
    pod.spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  if (terms.length === 0) return [];
  const offered = (flavorsOf(spec, model)?.flavors ?? []).flatMap(({ name, nodeSelector = {} }: Flavor) => {
    const labels = Object.entries(nodeSelector);
    const isIn = terms.some(({ matchExpressions }) =>
      labels.every(([key, value]) =>
        matchExpressions?.some(
          (one) => one.key === key && one.operator === "In" && one.values?.includes(value),
        ),
      ),
    );
    return labels.length > 0 && isIn ? [{ name, nodeSelector }] : [];
  });
  return offered.length > 1 ? offered : [];
}

/** Index of the first flavor whose labels a node has; undefined if it has those of none. */
function flavorIndex(
  flavors: readonly OfferedFlavor[],
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const index = flavors.findIndex(({ nodeSelector }) =>
    Object.entries(nodeSelector).every(([key, value]) => labels[key] === value),
  );
  return index < 0 ? undefined : index;
}

/**
 * A score from 0 to MAX_SCORE from a rank from 0 to 1. Every node of an earlier flavor has a higher score than those of later ones.
 * Half of the range is between the flavors, because the scheduler adds scores of other plugins.
 */
export function scoreOnFlavor(rank: number, index: number | undefined, count: number): number {
  if (count < 2) return Math.round(MAX_SCORE * rank);
  const span = Math.floor(MAX_SCORE / 2 / count);
  const last = count - 1;
  return Math.round(((last - (index ?? last)) / last) * (MAX_SCORE - span)) + Math.round(span * rank);
}
