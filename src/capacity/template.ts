/** Renders a service to the template of its replicas, with defaults filled in and references resolved. */

import type { BackendRuntimeSpec } from "../api/backend-runtime.ts";
import {
  DEFAULT_CONTEXT_PER_SLOT,
  DEFAULT_PROMPT_CACHE_MIB,
  type EngineSettings,
  engineFields,
} from "../api/engine-settings.ts";
import type { GgufFacts } from "../api/fields/gguf.ts";
import type { ReplicaAdapter, ReplicaModel, ReplicaTemplate } from "../api/inference-replica.ts";
import type { InferenceService, InferenceServiceSpec } from "../api/inference-service/index.ts";
import { type AdapterName, modelNamesOf, speculativeDecodingOf } from "../api/inference-service/roles.ts";
import type { Model } from "../api/model.ts";
import { revisionOfTemplate } from "../api/revision.ts";
import { checkGate, engineDescription } from "../engines/registry.ts";
import { parseSource } from "../models/source/parse.ts";
import { defined } from "../util/defined.ts";
import { type Transport, transportOf } from "./transport.ts";

const DEFAULT_REVISION_HISTORY = 10;

const DRAFT_NEUTRAL = ["none", "disabled"];

export interface SettingsContext {
  /** Metadata of the model, which limits the default context. */
  readonly gguf?: GgufFacts | undefined;
  /** `hardware.gpu.layers` of the Model. */
  readonly gpuLayers?: number | undefined;
}

/** Engine settings of a service. Settings that affect memory are always explicit, so that the engine uses what is claimed. */
export function toEngineSettings(spec: InferenceServiceSpec, context: SettingsContext = {}): EngineSettings {
  const mode = spec.mode ?? "chat";
  const parallelSlots = spec.parallelSlots ?? 1;
  const specified = Object.fromEntries(
    Object.keys(engineFields)
      .map((key) => [key, spec[key as keyof InferenceServiceSpec]] as const)
      .filter(([, value]) => value !== undefined),
  ) as Omit<EngineSettings, "mode">;
  const gpuLayers = spec.gpuLayers ?? context.gpuLayers;
  const speculativeDecoding = speculativeOf(spec);
  return {
    ...specified,
    mode,
    parallelSlots,
    contextSize: spec.contextSize ?? defaultContext(parallelSlots, context.gguf),
    kvUnified: spec.kvUnified ?? false,
    // Engines cache prompts for chat only.
    promptCacheMiB: mode === "chat" ? (spec.promptCacheMiB ?? DEFAULT_PROMPT_CACHE_MIB) : 0,
    ...(gpuLayers === undefined ? {} : { gpuLayers }),
    ...(speculativeDecoding === undefined ? {} : { speculativeDecoding }),
  };
}

function defaultContext(slots: number, gguf: GgufFacts | undefined): number {
  const trained = gguf?.contextLength ?? 0;
  const perSlot = trained > 0 ? Math.min(trained, DEFAULT_CONTEXT_PER_SLOT) : DEFAULT_CONTEXT_PER_SLOT;
  return perSlot * slots;
}

function speculativeOf(spec: InferenceServiceSpec): EngineSettings["speculativeDecoding"] {
  const speculativeDecoding = speculativeDecodingOf(spec);
  if (speculativeDecoding === undefined || DRAFT_NEUTRAL.includes(speculativeDecoding.type)) return undefined;
  return speculativeDecoding;
}

/** The Model in the form of a replica's template. `format` is derived from spec or source. */
export function toReplicaModel(model: Model, format: ReplicaModel["format"]): ReplicaModel {
  const { spec, status } = model;
  const { file, revision, changeMarker } = status?.pinned ?? {};
  return defined<ReplicaModel>({
    source: spec.source,
    files: file === undefined ? (spec.files ?? []) : [file],
    // An apply keeps no empty list.
    ignorePatterns: spec.ignorePatterns?.length === 0 ? undefined : spec.ignorePatterns,
    quantization: isHostFolder(spec) ? spec.quantization : undefined,
    revision,
    // A commit already identifies the content.
    changeMarker: revision === undefined ? changeMarker : undefined,
    mmproj: spec.mmproj,
    sha256: spec.sha256?.toLowerCase(),
    format,
    gguf: status?.gguf,
    sizeBytes: status?.sizeBytes,
    secretRef: spec.sourceSecretRef,
    refreshPolicy: spec.refreshPolicy,
  });
}

/** Identifies the content of a revision; undefined if nothing does. */
export function revisionContentOf(
  model: Pick<ReplicaModel, "revision" | "changeMarker"> | undefined,
): string | undefined {
  return model?.revision ?? model?.changeMarker;
}

/** The first digits of a commit, digest or change marker. */
export function shortRevision(revision: string): string {
  return revision.replace("sha256:", "").slice(0, 12);
}

/** The controller cannot list a folder of the host, so the agent selects the files. */
function isHostFolder({ source, files = [] }: Model["spec"]): boolean {
  const parsed = parseSource(source);
  return parsed.kind === "file" && files.length === 0 && !/\.(gguf|safetensors)$/i.test(parsed.path);
}

export interface TemplateInput {
  readonly service: InferenceService;
  readonly runtime: ReplicaTemplate["runtime"];
  readonly model: ReplicaModel;
  readonly draft?: ReplicaModel | undefined;
  readonly projector?: ReplicaModel | undefined;
  /** In the order of `modelNamesOf(spec).adapters`. */
  readonly loraModels?: readonly ReplicaModel[] | undefined;
  readonly gpuLayers?: number | undefined;
  /** Transport of services that do not set it. */
  readonly transport?: Transport | undefined;
  /** `host` of the BackendRuntime that the service names. */
  readonly backendHost?: BackendRuntimeSpec["host"];
}

/** The template of a revision, before a host is chosen. */
export type TemplateWithoutHost = Omit<ReplicaTemplate, "hostName">;

/** Renders the template of a service's replicas, including the revision. Throws MetalbridgeError. */
export function toReplicaTemplate(input: TemplateInput): TemplateWithoutHost {
  const { service, runtime, model, draft, projector, loraModels = [], gpuLayers, backendHost } = input;
  const { auth, endpoint } = service.spec;
  const { adapters } = modelNamesOf(service.spec);
  const { gate, tls } = endpoint;
  const program = engineDescription(runtime)?.program?.(service.spec, backendHost);
  const settings = (context: SettingsContext): EngineSettings => ({
    ...toEngineSettings(service.spec, context),
    ...(program === undefined ? {} : { program }),
  });
  const template = defined<Omit<TemplateWithoutHost, "revision">>({
    serviceName: service.metadata.name,
    serviceUid: service.metadata.uid ?? "",
    runtime,
    model,
    draft,
    projector,
    loraAdapters:
      loraModels.length === 0
        ? undefined
        : loraModels.map((weights, index) => adapterOf(weights, adapters[index])),
    engine: settings({ gguf: model.gguf, gpuLayers }),
    auth: auth === undefined ? undefined : { secretName: auth.secretRef.name, key: auth.key },
    gate: gate === "Auto" ? undefined : gate,
    transport: transportOf(service.spec, input.transport ?? "Direct") === "Sealed" ? "Sealed" : undefined,
    tls: tls && defined({ secretName: tls.secretRef.name, clientCASecretName: tls.clientCASecretRef?.name }),
  });
  checkGate(template);
  // The default context may depend on the header, and reading a header later must not restart an engine.
  const withoutHeader = { ...template, engine: settings({ gpuLayers }) };
  return { ...template, revision: revisionOfTemplate(withoutHeader) };
}

/** An adapter with a name applies only to requests that name it. */
function adapterOf(model: ReplicaModel, adapter: AdapterName | undefined): ReplicaAdapter {
  const { name, scale } = adapter ?? {};
  return scale === undefined ? { model, scale: 0, servedName: name } : { model, scale };
}

/** Number of old revisions to store. The field exists twice; only one of them may be set. */
export function revisionHistoryLimit(spec: InferenceServiceSpec): number {
  return spec.rollout.revisionHistoryLimit ?? spec.revisionHistoryLimit ?? DEFAULT_REVISION_HISTORY;
}
