/** From what a user asks for to what an agent runs: defaults filled in, references resolved. */

import { type EngineSettings, engineFields, type Mode } from "../api/engine-settings.ts";
import type { GgufFacts } from "../api/fields/gguf.ts";
import type { ReplicaModel, ReplicaProbes, ReplicaTemplate } from "../api/inference-replica.ts";
import type { InferenceService, InferenceServiceSpec } from "../api/inference-service/index.ts";
import type { Model } from "../api/model.ts";
import { readProbes } from "../api/probes.ts";
import { revisionOfTemplate } from "../api/revision.ts";
import { checkGate, engineDescription } from "../engines/registry.ts";
import { parseSource } from "../models/source/parse.ts";
import { defined } from "../util/defined.ts";

/** Context of one slot, in tokens, where nothing is asked for. */
export const DEFAULT_CONTEXT_PER_SLOT = 4096;
/** Prompt cache of a chat engine, where nothing is asked for. */
export const DEFAULT_PROMPT_CACHE_MIB = 1024;
export const DEFAULT_REVISION_HISTORY = 10;

const DRAFT_NEUTRAL = ["none", "disabled"];

export interface SettingsContext {
  /** What is known of the model: bounds the default context. */
  readonly gguf?: GgufFacts | undefined;
  /** `hardware.gpu.layers` of the Model. */
  readonly gpuLayers?: number | undefined;
}

/** Engine settings of a service. What sizes memory is always explicit, so that what is claimed is what runs. */
export function toEngineSettings(spec: InferenceServiceSpec, context: SettingsContext = {}): EngineSettings {
  const mode = spec.mode ?? "chat";
  const parallelSlots = spec.parallelSlots ?? 1;
  const given = Object.fromEntries(
    Object.keys(engineFields)
      .map((key) => [key, spec[key as keyof InferenceServiceSpec]] as const)
      .filter(([, value]) => value !== undefined),
  ) as Omit<EngineSettings, "mode">;
  const gpuLayers = spec.gpuLayers ?? context.gpuLayers;
  const speculativeDecoding = speculativeOf(spec);
  return {
    ...given,
    mode,
    parallelSlots,
    contextSize: spec.contextSize ?? defaultContext(parallelSlots, context.gguf),
    kvUnified: spec.kvUnified ?? false,
    promptCacheMiB: promptCache(spec, mode),
    ...(gpuLayers === undefined ? {} : { gpuLayers }),
    ...(speculativeDecoding === undefined ? {} : { speculativeDecoding }),
  };
}

function defaultContext(slots: number, gguf: GgufFacts | undefined): number {
  const trained = gguf?.contextLength ?? 0;
  const perSlot = trained > 0 ? Math.min(trained, DEFAULT_CONTEXT_PER_SLOT) : DEFAULT_CONTEXT_PER_SLOT;
  return perSlot * slots;
}

/** Engines keep old prompts for chat only; for embedding and rerank the cache would be dead memory. */
function promptCache(spec: InferenceServiceSpec, mode: Mode): number {
  return mode === "chat" ? (spec.promptCacheMiB ?? DEFAULT_PROMPT_CACHE_MIB) : 0;
}

function speculativeOf(spec: InferenceServiceSpec): EngineSettings["speculativeDecoding"] {
  const asked = spec.speculativeDecoding;
  if (asked === undefined || DRAFT_NEUTRAL.includes(asked.type)) return undefined;
  const { draftModelRef: _ref, draftModel: _file, ...tuning } = asked;
  return tuning;
}

/** A Model as a replica carries it. `format` is the one decided from spec or source. */
export function toReplicaModel(model: Model, format: ReplicaModel["format"]): ReplicaModel {
  const { spec, status } = model;
  const { file, revision, changeMarker } = status?.pinned ?? {};
  return defined<ReplicaModel>({
    source: spec.source,
    files: file === undefined ? (spec.files ?? []) : [file],
    quantization: isHostFolder(spec) ? spec.quantization : undefined,
    revision,
    // A commit is exact already.
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

/** What distinguishes the content of one revision from that of another; undefined where nothing does. */
export function contentOf(
  model: Pick<ReplicaModel, "revision" | "changeMarker"> | undefined,
): string | undefined {
  return model?.revision ?? model?.changeMarker;
}

/** The first digits of a commit, digest or change marker. */
export function shortRevision(revision: string): string {
  return revision.replace("sha256:", "").slice(0, 12);
}

/** The controller cannot list a folder of the host: the agent chooses in it. */
function isHostFolder({ source, files = [] }: Model["spec"]): boolean {
  const parsed = parseSource(source);
  return parsed.kind === "file" && files.length === 0 && !/\.(gguf|safetensors)$/i.test(parsed.path);
}

export interface TemplateInput {
  readonly service: InferenceService;
  readonly runtime: ReplicaTemplate["runtime"];
  readonly model: ReplicaModel;
  readonly draft?: ReplicaModel | undefined;
  /** In the order of `spec.loraAdapters`. */
  readonly loraModels?: readonly ReplicaModel[] | undefined;
  readonly gpuLayers?: number | undefined;
}

/** Everything of a template but the host: what a revision stands for. */
export type TemplateWithoutHost = Omit<ReplicaTemplate, "hostName">;

/** The template of a service's replicas, revision included, before a host is chosen. Throws MetalbridgeError. */
export function toReplicaTemplate(input: TemplateInput): TemplateWithoutHost {
  const { service, runtime, model, draft, loraModels = [], gpuLayers } = input;
  const { auth, endpoint, loraAdapters = [] } = service.spec;
  const { gate, tls } = endpoint;
  const program = engineDescription(runtime)?.program?.(service.spec);
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
    loraAdapters:
      loraModels.length === 0
        ? undefined
        : loraModels.map((weights, index) => ({ model: weights, scale: loraAdapters[index]?.scale ?? 1 })),
    engine: settings({ gguf: model.gguf, gpuLayers }),
    auth: auth === undefined ? undefined : { secretName: auth.secretRef.name, key: auth.key },
    gate: gate === "Auto" ? undefined : gate,
    tls: tls === undefined ? undefined : { secretName: tls.secretRef.name },
  });
  checkGate(template);
  // The default context may depend on the header, and reading a header later must not restart an engine.
  const asAsked = { ...template, engine: settings({ gpuLayers }) };
  return { ...template, revision: revisionOfTemplate(asAsked) };
}

/** Health probes of a replica, from the parts of probeOverrides that mean something without a kubelet. */
export function toReplicaProbes(spec: InferenceServiceSpec): ReplicaProbes {
  return readProbes(spec.probeOverrides).value;
}

/** How many old revisions are kept; the field has two places, of which one may be set. */
export function revisionHistoryLimit(spec: InferenceServiceSpec): number {
  return spec.rollout.revisionHistoryLimit ?? spec.revisionHistoryLimit ?? DEFAULT_REVISION_HISTORY;
}
