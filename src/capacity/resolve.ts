/** Resolves a service and its Model to a template, or to the reason why it cannot run. Pure. */

import type { EngineSettings } from "../api/engine-settings.ts";
import { type ErrorCode, MetalbridgeError } from "../api/errors.ts";
import { DEFAULT_MODEL_ACCELERATOR } from "../api/fields/hardware.ts";
import type { Runtime } from "../api/fields/runtimes.ts";
import type { ModelFormat } from "../api/fields/shared.ts";
import type { Flavor } from "../api/flavors.ts";
import type { Host } from "../api/host.ts";
import type { InferenceReplica, ReplicaModel } from "../api/inference-replica.ts";
import type { InferenceService } from "../api/inference-service/index.ts";
import type { ModelRole } from "../api/inference-service/model-refs.ts";
import { isBeingDeleted } from "../api/metadata.ts";
import type { Model } from "../api/model.ts";
import type { InheritedArguments } from "../engines/contract/arguments.ts";
import { DEFAULT_HOST_ACCELERATOR, engineDescription, runtimesFor } from "../engines/registry.ts";
import { defaultFormat, parseSource } from "../models/source/parse.ts";
import { defined } from "../util/defined.ts";
import { type ArgumentsAsSettings, argumentsAsSettings } from "./arguments.ts";
import { argumentsOfBackend, type BackendRevision, withBackend } from "./backend.ts";
import { type Claim, claimOf } from "./claim.ts";
import { argumentsOfFlavor, withArguments } from "./flavors/apply.ts";
import { unhonoredFields } from "./honored.ts";
import { listNamedModels, type NamedModel, type NamedModels } from "./named-models.ts";
import { candidateRuntimes, preferredOnHosts } from "./runtime-choice.ts";
import {
  revisionContentOf,
  type TemplateWithoutHost,
  toEngineSettings,
  toReplicaModel,
  toReplicaTemplate,
} from "./template.ts";
import type { Transport } from "./transport.ts";

export interface Resolved {
  readonly at: "resolved";
  readonly template: TemplateWithoutHost;
  readonly model: Model;
  readonly claim: Claim;
  /** `host.install` of the BackendRuntime. */
  readonly install?: string | undefined;
  readonly unhonored: readonly string[];
  /** Arguments that are honored as another field. */
  readonly notes: readonly string[];
  readonly inheritedSettings?: ArgumentsAsSettings["inheritedSettings"];
  /** Reason why a request cannot use its full context. */
  readonly beyondTraining?: string;
}

export interface Blocked {
  readonly at: "blocked";
  readonly code: ErrorCode;
  readonly message: string;
  /** True if only a change of spec or Model helps; false if waiting may help. */
  readonly isFinal: boolean;
}

export type Resolution = Resolved | Blocked;

export interface ResolveInput extends NamedModels {
  readonly service: InferenceService;
  /** The BackendRuntime that the service names; undefined if it does not exist and no revision of it is stored. */
  readonly backend?: BackendRevision | undefined;
  /** Weights of earlier revisions of the service, for `spec.modelRevision`. */
  readonly earlier?: readonly ReplicaModel[] | undefined;
  /** Replicas whose agents may have read the files of the model. Replicas of the service keep its runtime. */
  readonly replicas: readonly InferenceReplica[];
  /** All hosts, whose runtimes determine the runtime if spec.runtime is absent. */
  readonly hosts?: Iterable<Host>;
  /** Settings of the flavor that the service runs on. */
  readonly params?: Flavor["params"];
  /** Transport of services that do not set it; absent: Direct. */
  readonly transport?: Transport;
}

export function resolveService(input: ResolveInput): Resolution {
  const { backend, earlier = [], replicas, hosts = [], transport } = input;
  const service = withParams(input);
  const [main, ...others] = listNamedModels(service.spec, input);
  const current = usableModel(main);
  if ("at" in current) return current;
  if (service.spec.group !== undefined) return noGroupsOnHosts(current);
  const usable = withContent(current, service.spec.modelRevision, earlier);
  if ("at" in usable) return usable;
  if (service.spec.mode === "rerank" && usable.status?.gguf?.ranking === false) return notRanking(main.name);
  const byRole: Record<ModelRole, Model[]> = { main: [usable], draft: [], projector: [], lora: [] };
  for (const other of others) {
    const found = usableModel(other);
    if ("at" in found) return found;
    byRole[other.role].push(found);
  }
  const { draft, projector, lora: adapters } = byRole;
  const companions = { draftModel: draft[0], projectorModel: projector[0], adapters };
  if (backend === undefined && service.spec.backendRuntime !== undefined) return backendNotFound(service);
  try {
    const { probeOverrides: ownProbes } = service.spec;
    const written = writtenFor(input, usable);
    const parts = { ...written, model: usable, ...companions, backend, ownProbes, replicas, transport };
    return chosen(parts, hosts);
  } catch (error) {
    return blockedBy(error);
  }
}

type OnHosts = Pick<ResolveInput, "service" | "backend" | "params">;

/** The settings of a service on hosts. Works for a Model whose source is not read yet. Throws MetalbridgeError. */
export function settingsOnHosts(input: OnHosts, model: Model): EngineSettings {
  const { service, inherited } = writtenFor(input, model);
  const { runtime, mode = "chat" } = service.spec;
  const format = formatOf(model);
  const [first] = runtimesFor(format, DEFAULT_HOST_ACCELERATOR, mode);
  const { spec } = argumentsAsSettings(service.spec, runtime ?? first, inherited);
  return toEngineSettings(spec, { gguf: model.status?.gguf, gpuLayers: model.spec.hardware?.gpu?.layers });
}

/** The service with the settings of its flavor and BackendRuntime, and its arguments as they are written. Throws MetalbridgeError. */
function writtenFor(input: OnHosts, model: Model): Pick<Usable, "service" | "inherited"> {
  const { backend } = input;
  const service = withParams(input);
  const ofFlavor = argumentsOfFlavor(input.service.spec, service.spec);
  if (backend === undefined) return { service, inherited: [ofFlavor] };
  const spec = withBackend(service.spec, backend, { on: "Hosts", format: formatOf(model) });
  const inherited = [argumentsOfBackend(service.spec, spec, backend), ofFlavor];
  return { service: { ...service, spec }, inherited };
}

/** The service with the arguments of a flavor. */
function withParams({ service, params, backend }: OnHosts): InferenceService {
  if (params === undefined) return service;
  const { spec } = service;
  return { ...service, spec: { ...spec, ...withArguments(spec, params, backend?.spec.engine) } };
}

/** The service waits for the BackendRuntime that it names. */
export function backendNotFound({ spec }: InferenceService): Blocked {
  const message = `BackendRuntime ${spec.backendRuntime?.name} does not exist; create it or correct spec.backendRuntime.name`;
  return { at: "blocked", code: "BackendRuntimeNotFound", message, isFinal: false };
}

function noGroupsOnHosts({ metadata, spec }: Model): Blocked {
  const accelerator = spec.hardware?.accelerator ?? DEFAULT_MODEL_ACCELERATOR;
  const message = `spec.group needs pods, and accelerator ${accelerator} of Model ${metadata.name} runs on hosts, which do not form groups; set spec.placement.on to Pods and another accelerator, or remove spec.group`;
  return { at: "blocked", code: "GroupUnsupported", message, isFinal: true };
}

/** The Model with the content of an earlier revision. */
function withContent(
  model: Model,
  content: string | undefined,
  earlier: readonly ReplicaModel[],
): Model | Blocked {
  const { spec, status = {} } = model;
  const { pinned } = status;
  if (content === undefined || revisionContentOf(pinned) === content) return model;
  const stored = earlier.find((one) => one.source === spec.source && revisionContentOf(one) === content);
  if (stored === undefined) {
    const message = `no stored revision of the service has content ${content} of Model ${model.metadata.name}; remove spec.modelRevision to serve its current content`;
    return { at: "blocked", code: "ModelRevisionNotFound", message, isFinal: true };
  }
  const { revision, changeMarker, gguf, sizeBytes, files } = stored;
  // These fields describe the current content.
  const { weightsBytes: _, sha256: __, ...known } = status;
  const file = pinned?.file === undefined ? undefined : files[0];
  const then = defined({ key: pinned?.key ?? "", file, revision, changeMarker });
  return { ...model, status: defined({ ...known, pinned: then, gguf, sizeBytes }) };
}

interface Usable {
  readonly service: InferenceService;
  readonly model: Model;
  readonly draftModel: Model | undefined;
  readonly projectorModel: Model | undefined;
  readonly adapters: readonly Model[];
  readonly backend: BackendRevision | undefined;
  /** Probes of the service without those of its BackendRuntime. */
  readonly ownProbes: InferenceService["spec"]["probeOverrides"];
  readonly inherited: readonly InheritedArguments[];
  readonly replicas: readonly InferenceReplica[];
  readonly transport: Transport | undefined;
}

/** A revision keeps its runtime while it has a replica; otherwise the runtimes of hosts decide. Throws MetalbridgeError. */
function chosen(usable: Usable, hosts: Iterable<Host>): Resolution {
  const { service, model, replicas } = usable;
  const { runtime, mode = "chat" } = service.spec;
  const resolutions: Resolution[] = [];
  for (const candidate of candidateRuntimes(runtime, formatOf(model), mode)) {
    const resolution = tryResolve(usable, candidate);
    if (resolution.at === "resolved" && hasReplica(resolution, replicas)) return resolution;
    // Another runtime would ignore the arguments.
    if (resolution.at === "blocked" && resolution.code === "ExtraArgRefused") return resolution;
    resolutions.push(resolution);
  }
  // A runtime that only the user can unblock is skipped if another one is possible.
  const first = resolutions.find((one) => one.at === "resolved" || !one.isFinal) ?? resolutions[0];
  const resolved = resolutions.filter((one) => one.at === "resolved");
  if (first === undefined) throw new Error("a service without a candidate runtime");
  return resolutions.length === 1 ? first : (preferredOnHosts(service, resolved, hosts) ?? first);
}

function hasReplica({ template }: Resolved, replicas: readonly InferenceReplica[]): boolean {
  return replicas.some(
    ({ spec }) =>
      spec.template.serviceUid === template.serviceUid && spec.template.revision === template.revision,
  );
}

function tryResolve(usable: Usable, runtime: Runtime): Resolution {
  try {
    return resolve(usable, runtime);
  } catch (error) {
    return blockedBy(error);
  }
}

function notRanking(name: string): Blocked {
  const message = `Model ${name} is no reranker: its file has neither pooling type rank nor a classifier head, so its scores would be meaningless; name a reranker, or correct spec.mode`;
  return { at: "blocked", code: "ModelNotForMode", message, isFinal: true };
}

/** Throws any error that is no MetalbridgeError. */
export function blockedBy(error: unknown): Blocked {
  if (!(error instanceof MetalbridgeError)) throw error;
  return { at: "blocked", code: error.code, message: error.message, isFinal: true };
}

function resolve(usable: Usable, runtime: Runtime): Resolution {
  const { model, draftModel, projectorModel, adapters, backend, ownProbes, inherited, replicas, transport } =
    usable;
  const format = formatOf(model);
  const given = engineDescription(runtime)?.complete?.(usable.service.spec, format) ?? usable.service.spec;
  const { spec, notes, inheritedSettings } = argumentsAsSettings(given, runtime, inherited);
  const service = { ...usable.service, spec };
  const weightsOf = (one: Model) => toReplicaModel(one, formatOf(one));
  const gpuLayers = model.spec.hardware?.gpu?.layers;
  const template = toReplicaTemplate({
    service,
    runtime,
    model: toReplicaModel(model, format),
    draft: draftModel && weightsOf(draftModel),
    projector: projectorModel && weightsOf(projectorModel),
    loraModels: adapters.map(weightsOf),
    gpuLayers,
    transport,
    backendHost: backend?.spec.host,
  });
  const ofModel = replicas.filter(({ spec }) => spec.template.model.source === model.spec.source);
  const claim = claimOf({ template, model, draftModel, replicas: ofModel });
  if (claim.at === "unsizable") {
    return { at: "blocked", code: "ModelSizeUnknown", message: claim.message, isFinal: false };
  }
  // The agent reports the header of a file that only the host can read.
  const gguf =
    [model.status, ...ofModel.map(({ status }) => status?.model)].find((one) => one?.gguf)?.gguf ?? {};
  return {
    at: "resolved",
    template,
    model,
    claim,
    install: backend?.spec.host?.install,
    // Probes of the BackendRuntime are for pods too, so only those of the service count.
    unhonored: unhonoredFields({ ...spec, probeOverrides: ownProbes }, "Hosts", runtime),
    notes,
    inheritedSettings,
    beyondTraining: engineDescription(runtime)?.host?.claims.contextWarning(gguf, template.engine),
  };
}

/** As the files state it, or else as the Model selects it. */
export function quantizationOfWeights({ spec, status }: Model): string | undefined {
  return status?.quantization ?? status?.gguf?.quantization ?? spec.quantization;
}

/** spec.format of the Model, else the format that was detected at its source, else that of the source's name, else gguf. */
export function formatOf({ spec, status }: Model): ModelFormat {
  return spec.format ?? status?.format ?? defaultFormat(parseSource(spec.source)) ?? "gguf";
}

/** The Model, or the reason why it cannot be used. */
export function usableModel({ model, name, field }: Omit<NamedModel, "role">): Model | Blocked {
  if (model === undefined || isBeingDeleted(model)) {
    const message = `Model ${name} does not exist in this namespace; create it or correct ${field}`;
    return { at: "blocked", code: "ModelNotFound", message, isFinal: false };
  }
  const { phase, reason, message, observedGeneration } = model.status ?? {};
  const isCurrent = observedGeneration === undefined || observedGeneration === model.metadata.generation;
  // Only a replica can determine whether a host has the file.
  const isUnchecked = phase === "Pending" && parseSource(model.spec.source).kind === "file";
  if ((phase === "Ready" || isUnchecked) && isCurrent) return model;
  const why = [reason, message].filter((text) => text !== undefined && text !== "").join(": ");
  if (phase === "Failed" && isCurrent) {
    return { at: "blocked", code: "ModelFailed", message: `Model ${name} failed: ${why}`, isFinal: true };
  }
  const text = why === "" ? `Model ${name} is not resolved yet` : `Model ${name} is not ready: ${why}`;
  return { at: "blocked", code: "ModelNotReady", message: text, isFinal: false };
}
