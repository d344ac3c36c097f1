/** Resolves a service for pods: its runtime and its objects, or the reason why pods cannot run it. Pure. */

import { getCondition } from "../../../src/api/conditions.ts";
import type { EngineSettings } from "../../../src/api/engine-settings.ts";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { Accelerator } from "../../../src/api/fields/hardware.ts";
import { parseQuantity } from "../../../src/api/fields/quantity.ts";
import type { Runtime } from "../../../src/api/fields/runtimes.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { ModelRole } from "../../../src/api/inference-service/model-refs.ts";
import type { Model } from "../../../src/api/model.ts";
import { type ArgumentsAsSettings, argumentsAsSettings } from "../../../src/capacity/arguments.ts";
import { argumentsOfBackend, type BackendRevision, withBackend } from "../../../src/capacity/backend.ts";
import type { KernelNeed, Loading } from "../../../src/capacity/fitness.ts";
import { unhonoredFields } from "../../../src/capacity/honored.ts";
import { listNamedModels, type NamedModels } from "../../../src/capacity/named-models.ts";
import { isPartlyOffloaded } from "../../../src/capacity/offload.ts";
import { kernelNeedOf } from "../../../src/capacity/quantization-kernels.ts";
import {
  type Blocked,
  backendNotFound,
  blockedBy,
  formatOf,
  usableModel,
} from "../../../src/capacity/resolve.ts";
import { toEngineSettings } from "../../../src/capacity/template.ts";
import type { InheritedArguments } from "../../../src/engines/contract/arguments.ts";
import { engineDescription, isRuntimeFor, runtimesFor } from "../../../src/engines/registry.ts";
import type { ControllerRevision } from "../../../src/kube/objects.ts";
import type { ResourceClaimTemplate } from "../../../src/kube/workload-objects.ts";
import { parseSource } from "../../../src/models/source/parse.ts";
import { isPulledInPods, podSource, weightsOnNode } from "./cache-eligibility.ts";
import type {
  GroupWorkload,
  MountedWeights,
  PodFlavors,
  PodsSettings,
  Surroundings,
  Workload,
  WorkloadInput,
} from "./contract.ts";
import { type DesiredPods, desiredPodsDigest, renderedFor, type Templates } from "./desired-pods.ts";
import { ephemeralWeights, isEphemeral, weightsFilledByPods } from "./ephemeral.ts";
import { gpusOf, podAccelerator } from "./gpus.ts";
import { buildGroup } from "./group.ts";
import { claimInPod, claimOnGPUs } from "./memory.ts";
import { weightsOnVolume } from "./model-cache.ts";
import { podRevisionOf } from "./revision.ts";
import { buildWorkload } from "./workload.ts";

export interface PodsInput extends NamedModels {
  readonly service: InferenceService;
  /** The BackendRuntime that the service names; undefined if it does not exist and no revision of it is stored. */
  readonly backend?: BackendRevision | undefined;
  /** True if no other service names its Model. */
  readonly isOnlyService?: boolean;
  readonly settings: PodsSettings;
  /** Revisions of the service. The template of the newest one stays until the desired state changes. */
  readonly revisions?: readonly ControllerRevision[];
  /** Arguments of the flavor, in front of those of the service. */
  readonly inherited?: readonly InheritedArguments[] | undefined;
  /** What the flavors of the Model add to the pods. */
  readonly flavors?: PodFlavors | undefined;
  /** The template of the pods' claims for devices, if they choose the flavor. */
  readonly claimTemplate?: ResourceClaimTemplate | undefined;
}

export interface PodsResolved<W extends Surroundings = Workload> {
  readonly at: "resolved";
  readonly runtime: Runtime;
  readonly workload: W;
  /** Revision of the pods, their templates, and the digest of the desired state. */
  readonly revision: string;
  readonly templates: Templates;
  readonly digest: string;
  /** Number of GPUs of each pod. */
  readonly gpuCount: number;
  readonly need: PodNeed;
  /** Paths of fields that are set but have no effect in pods. */
  readonly unhonored: readonly string[];
  /** What is honored in another field than it is set in. */
  readonly notes: readonly string[];
  readonly inheritedSettings?: ArgumentsAsSettings["inheritedSettings"];
}

/** What one pod of a service requires of its node. */
export interface PodNeed {
  readonly accelerator: Accelerator;
  readonly gpus: number;
  /** What the quantization of the model needs of NVIDIA's GPUs. */
  readonly kernel: KernelNeed | undefined;
  /** Keys of taints that the pod tolerates to get its GPUs. */
  readonly taints: readonly string[];
  readonly settings: EngineSettings & Loading;
  /** Bytes of GPU memory, or of host memory if the pod has no GPU. Undefined if the header is unknown or no estimate is possible. */
  readonly claimBytes: (accelerator: Accelerator) => number | undefined;
}

/** Also works for a Model whose source is not read yet. Throws MetalbridgeError if no pod can be built. */
export function podNeed(
  {
    service,
    model,
    ...others
  }: Pick<WorkloadInput, "service" | "model" | "draft" | "projector" | "adapters">,
  runtime: Runtime = runtimeOf(service, model),
): PodNeed {
  const { spec } = service;
  const { accelerator, count, taints } = gpusOf(model, spec);
  const { gguf, weightsBytes, sizeBytes } = model.status ?? {};
  const settings = toEngineSettings(spec, { gguf, gpuLayers: model.spec.hardware?.gpu?.layers });
  const { hostMemory, memory, limits } = spec.resources ?? {};
  const stated = count === 0 ? (hostMemory ?? memory ?? limits?.memory) : undefined;
  const isSafetensors = formatOf(model) === "safetensors";
  const loading: Loading = {
    safetensors: isSafetensors ? { bytes: weightsBytes ?? sizeBytes } : undefined,
    loadsLess: count > 0 && isPartlyOffloaded(spec, settings),
  };
  return {
    accelerator,
    gpus: count,
    kernel: count > 0 && accelerator === "cuda" ? kernelNeedOf(spec, model) : undefined,
    taints,
    settings: { ...settings, ...loading },
    // Asked for each node of the cluster.
    claimBytes: oncePerAccelerator((on) => {
      if (stated !== undefined) return parseQuantity(stated);
      const claim = claimInPod({ ...others, model, runtime }, settings, on, spec.group?.size);
      return count === 0
        ? claim?.claimBytes
        : claim && claimOnGPUs(claim, runtime, settings, gguf?.layerCount);
    }),
  };
}

function oncePerAccelerator(claimBytes: PodNeed["claimBytes"]): PodNeed["claimBytes"] {
  const known = new Map<Accelerator, number | undefined>();
  return (on) => {
    if (!known.has(on)) known.set(on, claimBytes(on));
    return known.get(on);
  };
}

export function resolvePods(input: PodsInput): PodsResolved | Blocked {
  return resolve(input, (parts, kept) => {
    const { deployment, ...around } = buildWorkload(parts);
    const template = kept?.template ?? deployment.spec.template;
    const workload = { ...around, deployment: { ...deployment, spec: { ...deployment.spec, template } } };
    return { workload, templates: { template } };
  });
}

/** The same for a service with spec.group. */
export function resolveGroups(input: PodsInput): PodsResolved<GroupWorkload> | Blocked {
  return resolve(input, (parts, kept) => {
    const { group, ...around } = buildGroup(parts);
    const { leaderTemplate, workerTemplate, ...others } = group.spec.leaderWorkerTemplate;
    const templates = {
      leaderTemplate: kept?.leaderTemplate ?? leaderTemplate,
      workerTemplate: kept?.workerTemplate ?? workerTemplate,
    };
    const leaderWorkerTemplate = { ...others, ...templates };
    const workload = { ...around, group: { ...group, spec: { ...group.spec, leaderWorkerTemplate } } };
    return { workload, templates };
  });
}

type Render<W> = (
  parts: WorkloadInput,
  kept: Templates | undefined,
) => { readonly workload: W; readonly templates: Templates };

function resolve<W extends Surroundings>(input: PodsInput, render: Render<W>): PodsResolved<W> | Blocked {
  if (input.service.spec.backendRuntime !== undefined && input.backend === undefined)
    return backendNotFound(input.service);
  try {
    const written = writtenFor(input.service, input);
    const found = mergedInputOf({ ...input, service: written.service });
    if ("at" in found) return found;
    const { model } = found.parts;
    // Arguments count as they are written: another version may read more of them as settings.
    const digest = desiredPodsDigest(found.desired);
    const kept = renderedFor(digest, input.revisions ?? []);
    const runtime = runtimeOf(written.service, model, kept?.runtime);
    const { spec, notes, inheritedSettings } = argumentsAsSettings(
      written.service.spec,
      runtime,
      written.inherited,
    );
    const service = { ...written.service, spec };
    const parts = { ...found.parts, service };
    const { workload, templates } = render(
      { ...parts, runtime, replicas: replicasOf(service) },
      kept?.templates,
    );
    const [first] = Object.values(templates);
    const revision = (first && podRevisionOf(first)) ?? "";
    const need = podNeed(parts, runtime);
    const unhonored = unhonoredFields(service.spec, "Pods", runtime);
    const gpuCount = need.gpus;
    const rendered = { runtime, workload, revision, templates, digest };
    return { at: "resolved", ...rendered, gpuCount, need, unhonored, notes, inheritedSettings };
  } catch (error) {
    return blockedBy(error);
  }
}

interface Found {
  readonly parts: Omit<WorkloadInput, "runtime" | "replicas">;
  readonly desired: DesiredPods;
}

type OfPods = Pick<PodsInput, "backend" | "model" | "inherited">;

/** The service with the settings of its BackendRuntime and those in its arguments. Throws MetalbridgeError. */
export function withPodBackend(given: InferenceService, parts: OfPods): InferenceService {
  const { service, inherited } = writtenFor(given, parts);
  const { spec } = service;
  if (parts.model === undefined || spec.extraArgs === undefined) return service;
  const runtime = runtimeOf(service, parts.model);
  return { ...service, spec: argumentsAsSettings(spec, runtime, inherited).spec };
}

/** The service with the settings of its BackendRuntime, and its arguments as they are written. */
function writtenFor(service: InferenceService, { backend, model, inherited = [] }: OfPods) {
  // A missing Model is reported later.
  if (model === undefined || backend === undefined) return { service, inherited };
  const accelerator = podAccelerator(model, service.spec);
  const spec = withBackend(service.spec, backend, { on: "Pods", format: formatOf(model), accelerator });
  const ofBackend = argumentsOfBackend(service.spec, spec, backend);
  return { service: { ...service, spec }, inherited: [ofBackend, ...inherited] };
}

function mergedInputOf(input: PodsInput): Found | Blocked {
  const { service, settings, isOnlyService, flavors, claimTemplate } = input;
  const models: { readonly role: ModelRole; readonly model: Model; readonly weights?: MountedWeights }[] = [];
  for (const named of listNamedModels(service.spec, input)) {
    const found = usableModel(named);
    if ("at" in found) return found;
    const weights = weightsFor(service, found, { main: models[0]?.model ?? found, settings });
    if (weights !== undefined && "at" in weights) return weights;
    models.push({ role: named.role, model: found, weights });
  }
  const ofRole = (role: ModelRole) => models.filter((one) => one.role === role);
  const [[main], [draft], [projector]] = [ofRole("main"), ofRole("draft"), ofRole("projector")];
  if (main === undefined) throw new Error("a service without a Model");
  const parts = {
    service,
    model: main.model,
    weights: main.weights,
    settings,
    isOnlyService,
    draft: draft?.model,
    draftWeights: draft?.weights,
    projector: projector?.model,
    projectorWeights: projector?.weights,
    adapters: ofRole("lora").map(({ model }) => model),
    adapterWeights: ofRole("lora").map(({ weights }) => weights),
    flavors,
    claimTemplate,
  };
  return { parts, desired: { service, models, flavors } };
}

function replicasOf({ spec: { replicas, suspend } }: InferenceService): number {
  return suspend ? 0 : replicas;
}

/** Undefined if the engine fetches the weights. */
function weightsFor(
  service: InferenceService,
  model: Model,
  { main, settings: { fetch } }: { readonly main: Model; readonly settings: PodsSettings },
): MountedWeights | Blocked | undefined {
  const { spec } = service;
  if (spec.skipModelInit === true || (model === main && isPulledInPods(model, fetch))) return undefined;
  const onNode = weightsOnNode(model, fetch);
  if (onNode !== undefined) return onNode;
  if (isEphemeral(spec, model)) {
    try {
      const { needsWeights } = engineDescription(runtimeOf(service, main))?.pod ?? {};
      const fetchesItself = needsWeights === false || (needsWeights !== true && fetch?.image === undefined);
      if (fetchesItself) return undefined;
      podSource(model, model === main);
      return ephemeralWeights(model);
    } catch (error) {
      return blockedBy(error);
    }
  }
  return otherClaim(service, model) ?? weightsOnClaim(model, main);
}

/** While the Model moves to the claim that its service names, no pod is created for the previous claim. */
function otherClaim({ spec: { modelCache } }: InferenceService, model: Model): Blocked | undefined {
  const { claimName: desired } = modelCache ?? {};
  const { claimName, message } = model.status?.cache ?? {};
  if (desired === undefined || claimName === undefined || desired === claimName) return undefined;
  if (parseSource(model.spec.source).kind === "pvc") return undefined;
  const detail = message ? `: ${message}` : "";
  const text = `Model ${model.metadata.name} is not on claim ${desired} yet${detail}`;
  return { at: "blocked", code: "ModelNotReady", message: text, isFinal: false };
}

function weightsOnClaim(model: Model, main: Model): MountedWeights | Blocked {
  try {
    podSource(model, model === main);
    const weights = weightsOnVolume(model) ?? weightsFilledByPods(model);
    // A pod that mounted two volumes of one node each could need two nodes, so it fetches these to its own volume.
    const isElsewhere = weights?.claimName !== main.status?.cache?.claimName;
    if (weights?.isOnOneNode === true && isElsewhere) return ephemeralWeights(model);
    if (weights !== undefined) return weights;
  } catch (error) {
    return blockedBy(error);
  }
  const { phase, message } = model.status?.cache ?? {};
  const { name } = model.metadata;
  if (phase === "Failed") {
    const text = `Model ${name} has no copy on a volume: ${message ?? ""}`;
    return { at: "blocked", code: "ModelFailed", message: text, isFinal: false };
  }
  const why = message ?? degradedMessage(model);
  const detail = why === undefined ? "" : `: ${why}`;
  const text = `Model ${name} is not on its volume yet${detail}`;
  return { at: "blocked", code: "ModelNotReady", message: text, isFinal: false };
}

function degradedMessage({ status }: Model): string | undefined {
  const degraded = getCondition(status?.conditions, "Degraded");
  return degraded?.status === "True" ? degraded.message : undefined;
}

/** Returns spec.runtime, or else the runtime chosen earlier, or else the first one that serves the model in pods. Throws RuntimeMismatch. */
export function runtimeOf({ spec }: Pick<InferenceService, "spec">, model: Model, before?: Runtime): Runtime {
  const format = formatOf(model);
  const accelerator = podAccelerator(model, spec);
  const { runtime, mode = "chat" } = spec;
  const candidates =
    runtime === undefined
      ? [...(before === undefined ? [] : [before]), ...runtimesFor(format, accelerator, mode)]
      : [runtime];
  const found = candidates.find((one) => engineDescription(one)?.pod !== undefined);
  if (found !== undefined && isRuntimeFor(found, format, accelerator)) return found;
  const message =
    runtime === undefined
      ? `no runtime is chosen for format ${format} on ${accelerator} in pods; set spec.runtime`
      : `runtime ${runtime} does not serve format ${format} on ${accelerator} in pods`;
  throw new MetalbridgeError("RuntimeMismatch", message);
}
