/** A runtime as the container of a pod: image, port, arguments, probes, metrics. */
import type { EngineSettings } from "../../api/engine-settings.ts";
import { MetalbridgeError } from "../../api/errors.ts";
import type { Accelerator } from "../../api/fields/hardware.ts";
import type { InferenceServiceSpec } from "../../api/inference-service/index.ts";
import type { Model } from "../../api/model.ts";
import { parseSource } from "../../models/source/parse.ts";

/** An environment variable of the container, with a value or a reference to a field of the pod or to a Secret. */
export type PodVariable =
  | { readonly name: string; readonly value: string }
  | { readonly name: string; readonly field: string }
  | { readonly name: string; readonly secret: { readonly name: string; readonly key: string } };

/** Absolute paths inside the container. */
export interface PodFiles {
  readonly folder: string;
  readonly main: string;
}

/** A further Model of the service, with its files unless the engine fetches its source itself. */
export interface PodModel {
  readonly model?: Model;
  readonly files?: PodFiles;
}

/** An adapter that applies to all requests with `scale`, or to those that name it. */
export interface PodAdapter extends PodModel {
  readonly scale?: number;
  readonly servedName?: string;
}

export interface PodGPUs {
  /** Number of GPUs per pod. */
  readonly count: number;
  /** Set with more than one GPU only. */
  readonly strategy?: "layer" | "tensor" | "row" | "pipeline" | "none";
  /** Number of layers of each GPU, in order. */
  readonly layers?: readonly number[];
  /** Sizes from the flavor of the Model, which settings of the runtime override. */
  readonly parallel?:
    | { readonly tensor?: number | undefined; readonly pipeline?: number | undefined }
    | undefined;
  /** Fraction of a GPU's memory that the service may use, if it is limited and the size of the GPU is known. */
  readonly memoryShare?: number;
}

/** Input for the command of a container. */
export interface PodInput {
  readonly spec: InferenceServiceSpec;
  readonly settings: EngineSettings;
  readonly model: Model;
  /** Model name that clients use. */
  readonly served: string;
  /** Further names that requests through gateways may have. */
  readonly aliases: readonly string[];
  /** Absent if the engine fetches the Model's source itself. */
  readonly weights?: PodFiles;
  readonly projector?: string;
  readonly draft?: PodModel;
  readonly adapters: readonly PodAdapter[];
  readonly chatTemplateFile?: string;
  readonly slotFolder?: string;
  readonly apiKeyFile?: string;
  readonly address: string;
  readonly port: number;
  readonly accelerator: Accelerator;
  readonly gpus: PodGPUs;
  /** Registry of ollama:// sources without a host. Absent: Ollama's own. */
  readonly ollamaRegistry?: string | undefined;
  /** True for the pinned image: another image may have a version that lacks some arguments. */
  readonly hasPinnedImage: boolean;
}

export interface PodCommand {
  /** Defaults to the command of the image. */
  readonly command?: readonly string[];
  readonly args: readonly string[];
  /** Arguments after `args` whose references to variables Kubernetes expands. */
  readonly expanded?: readonly string[];
  readonly env: readonly PodVariable[];
}

/** Layers of the model on the GPUs, with numbers if the engine reports them. */
export interface Offloaded {
  readonly layers: "all" | "some" | "none";
  readonly count?: string;
}

/** The way in which an engine gets the API key. It is no argument, because all processes of a node can read arguments. */
export type PodKey = ({ readonly by: "file" } | { readonly by: "variable"; readonly variable: string }) & {
  /** Paths that are accessible without the key, as part of a sentence. */
  readonly open: string;
  /** Inference paths are among them. */
  readonly isInferenceOpen?: true;
  /** The engine passes the key as an argument to its own child process. */
  readonly isInArguments?: true;
};

export interface PodRuntime {
  /** Pinned images with the host name of the registry. For other accelerators spec.image is required. */
  readonly images: Partial<Readonly<Record<Accelerator, string>>>;
  readonly port: number;
  /** Default listen address. */
  readonly address: string;
  /** HTTP path of the probes; absent if they run commands or open a TCP connection. */
  readonly healthPath?: string;
  /** Commands of the probes: `ready` for startup and readiness, `alive` for liveness. */
  readonly probes?: Readonly<Record<"ready" | "alive", (input: PodInput) => readonly string[]>>;
  /** Metrics on the port of the engine. */
  readonly metrics?: {
    readonly path: string;
    /** Gauges whose sum is the number of requests in flight, including queued ones. */
    readonly inFlight: readonly string[];
    /** Default metric for autoscaling. */
    readonly load: string;
    /** Counter of generated tokens. */
    readonly generatedTokens?: string;
    /** Histogram of the time to the first token, without `_sum` and `_count`. */
    readonly firstToken?: string;
    /** True if the path requires the API key. */
    readonly isProtected?: true;
  };
  /** Absent if the engine does not check API keys. */
  readonly apiKey?: PodKey;
  /** True if the engine cannot fetch the weights itself. False if it always does, and never reads them from a volume. */
  readonly needsWeights?: boolean;
  /**
   * Derives the layers on the GPUs from the log of a start; undefined if the log does not state them. `needsGPU`: the engine does
   * not start without a GPU. Absent if nothing is known.
   */
  readonly offloaded?: "needsGPU" | ((log: string) => Offloaded | undefined);
  /** The engine needs more shared memory than the 64 MiB of a container with more than one GPU. */
  readonly sharesMemory?: true;
  /** As process 1 of its container, the engine finishes requests in flight after a first TERM, and exits after a second one. */
  readonly endsAtSecondTerm?: true;
  /** The engine rejects requests with another model name than those in its arguments. */
  readonly checksModelName?: true;
  /** The image writes outside of /tmp. */
  readonly writesImage?: true;
  /** Fills in placeholders in arguments, variables and probes of the user. Throws MetalbridgeError. */
  readonly render?: (text: string, input: PodInput) => string;
  /** Additional fields of InferenceService.spec that the engine honors in a pod. */
  readonly settings: readonly string[];
  /** Parts of these fields that the engine does not honor, as paths below spec. */
  readonly unhonoredParts?: (spec: InferenceServiceSpec) => string[];
  /** Throws MetalbridgeError for unsupported settings. */
  readonly command: (input: PodInput) => PodCommand;
}

/** Variable with the Hugging Face token in the Secret of the runtime's settings, else in the credentials of the source. */
function tokenVariable(
  model: Model,
  own?: { readonly name: string; readonly key?: string | undefined },
): PodVariable[] {
  const reference = own ?? model.spec.sourceSecretRef;
  if (reference === undefined) return [];
  return [{ name: "HF_TOKEN", secret: { name: reference.name, key: own?.key ?? "HF_TOKEN" } }];
}

/** Weights for Python engines, in the form that the Hugging Face library accepts. */
export interface HubWeights {
  /** A folder, or a repository. */
  readonly name: string;
  /** Branch, tag or commit of a repository. */
  readonly revision?: string;
  readonly env: readonly PodVariable[];
}

/** Throws `WeightsNotCached` for a source that Python engines cannot fetch. */
export function hubWeights(
  { model, weights }: Pick<PodInput, "model" | "weights">,
  token?: { readonly name: string; readonly key?: string | undefined },
): HubWeights {
  const env = [{ name: "HF_HUB_DISABLE_TELEMETRY", value: "1" }, ...tokenVariable(model, token)];
  // Files that are missing on the volume must not be downloaded silently in their current revision.
  if (weights !== undefined)
    return { name: weights.folder, env: [...env, { name: "HF_HUB_OFFLINE", value: "1" }] };
  const source = parseSource(model.spec.source);
  if (source.kind !== "hf") {
    const message = `only hf:// can be fetched by the engine itself, and spec.source is ${model.spec.source}`;
    throw new MetalbridgeError("WeightsNotCached", message);
  }
  return { name: source.repo, revision: model.status?.pinned?.revision ?? source.revision, env };
}

/** Renders flags with their values: true becomes a switch; false and undefined are omitted. */
export function flagsOf(settings: Readonly<Record<string, string | number | boolean | undefined>>): string[] {
  return Object.entries(settings).flatMap(([flag, value]) => {
    if (value === undefined || value === false) return [];
    return value === true ? [flag] : [flag, String(value)];
  });
}

/** Renders the fields of an engine's own section of a service by their arguments. */
export function flagsOfFields<Name extends string>(
  config: { readonly [N in Name]?: string | number | boolean | undefined } | undefined,
  fields: Readonly<Record<string, Name>>,
): string[] {
  return flagsOf(Object.fromEntries(Object.entries(fields).map(([flag, name]) => [flag, config?.[name]])));
}

/** Number of tensor and pipeline shards of a copy of the model. */
export function parallelSizes(
  { gpus: { count, strategy, parallel } }: PodInput,
  own: { readonly tensor?: number | undefined; readonly pipeline?: number | undefined } = {},
): { readonly tensor: number; readonly pipeline: number } {
  const given = { tensor: own.tensor ?? parallel?.tensor, pipeline: own.pipeline ?? parallel?.pipeline };
  const isPipeline = strategy === "pipeline";
  const pipeline = given.pipeline ?? (isPipeline && given.tensor === undefined ? Math.max(count, 1) : 1);
  const available = isPipeline || strategy === "none" ? 1 : Math.max(Math.floor(count / pipeline), 1);
  const tensor = given.tensor ?? available;
  if (count > 0 && tensor * pipeline > count) {
    const message = `${tensor} tensor and ${pipeline} pipeline shards need ${tensor * pipeline} GPUs, and a pod has ${count}`;
    throw new MetalbridgeError("GPURequestInvalid", message);
  }
  return { tensor, pipeline };
}

/** Maximum number of tokens of a request if the service sets a context, which slots share equally. */
export function tokensPerRequest({
  contextSize,
  parallelSlots = 1,
  kvUnified,
}: Pick<InferenceServiceSpec, "contextSize" | "parallelSlots" | "kvUnified">): number | undefined {
  if (contextSize === undefined) return undefined;
  return kvUnified === true ? contextSize : Math.floor(contextSize / parallelSlots);
}

/** Throws for a mode that the runtime does not serve. */
export function requireChatMode({ settings }: PodInput, runtime: string): void {
  if (settings.mode === "chat") return;
  throw new MetalbridgeError(
    "SettingNotSupported",
    `runtime ${runtime} does not serve spec.mode ${settings.mode}`,
  );
}
