/** What a runtime is as the container of a pod: image, port, arguments, probes, metrics. */
import type { EngineSettings } from "../../api/engine-settings.ts";
import { MetalbridgeError } from "../../api/errors.ts";
import type { Accelerator } from "../../api/fields/hardware.ts";
import type { InferenceServiceSpec } from "../../api/inference-service/index.ts";
import type { Model } from "../../api/model.ts";
import { parseSource } from "../../models/source/parse.ts";

/** A variable of the container; a secret's value is only referred to. */
export type PodVariable =
  | { readonly name: string; readonly value: string }
  | { readonly name: string; readonly secret: { readonly name: string; readonly key: string } };

/** Absolute paths inside the container. */
export interface PodFiles {
  readonly folder: string;
  readonly main: string;
}

export interface PodGPUs {
  /** Per pod; 0 for none. */
  readonly count: number;
  /** Only with more than one. */
  readonly strategy?: "layer" | "tensor" | "row" | "pipeline" | "none";
  /** Layers of each GPU in turn. */
  readonly layers?: readonly number[];
  /** Share of a GPU's memory that the service may use, where it is limited and the GPU's size is known. */
  readonly memoryShare?: number;
}

/** All that a container's command is made from. */
export interface PodInput {
  readonly spec: InferenceServiceSpec;
  readonly settings: EngineSettings;
  readonly model: Model;
  /** Name by which clients call the model. */
  readonly served: string;
  /** Absent: the engine fetches the Model's source itself. */
  readonly weights?: PodFiles;
  readonly projector?: string;
  readonly draft?: PodFiles;
  /** In the order of spec.loraAdapters. */
  readonly adapters: readonly PodFiles[];
  readonly chatTemplateFile?: string;
  readonly slotFolder?: string;
  readonly apiKeyFile?: string;
  readonly address: string;
  readonly port: number;
  readonly accelerator: Accelerator;
  readonly gpus: PodGPUs;
  /** The image is the one that we pin: another image may have a version that lacks some arguments. */
  readonly hasPinnedImage: boolean;
}

export interface PodCommand {
  /** Absent: the image's own. */
  readonly command?: readonly string[];
  readonly args: readonly string[];
  readonly env: readonly PodVariable[];
}

/** Which layers of the model are on the GPUs, with numbers where the engine reports them. */
export interface Offloaded {
  readonly layers: "all" | "some" | "none";
  readonly count?: string;
}

/** How an engine gets the API key. Never as an argument: every process of a node can read those of all others. */
export type PodKey = ({ readonly by: "file" } | { readonly by: "variable"; readonly variable: string }) & {
  /** What it answers without the key, as part of a sentence. */
  readonly open: string;
  /** So does a path that computes. */
  readonly isInferenceOpen?: true;
  /** It gives the key as an argument to a process that it starts itself. */
  readonly isInArguments?: true;
};

export interface PodRuntime {
  /** Pinned, with the registry's host name. Absent for an accelerator: there is none, spec.image has to name it. */
  readonly images: Partial<Readonly<Record<Accelerator, string>>>;
  readonly port: number;
  /** What it listens on where spec.bindAddress is absent. */
  readonly address: string;
  /** Absent: a TCP connection decides. */
  readonly healthPath?: string;
  /** On the port that it serves on. */
  readonly metrics?: {
    readonly path: string;
    /** Gauges whose sum is the number of requests in flight, queued ones included. */
    readonly inFlight: readonly string[];
    /** What replicas are counted by where spec.autoscaling.metrics is absent. */
    readonly load: string;
    /** The API key protects it too. */
    readonly isProtected?: true;
  };
  /** Absent: it checks no API keys. */
  readonly apiKey?: PodKey;
  /** True: it cannot fetch the weights itself. False: it always does, and reads none from a volume. */
  readonly needsWeights?: boolean;
  /**
   * With GPUs: from the log of a start, which layers are on them; undefined where it does not say. `needsGPU`: it does not
   * start without one. Absent: nothing is known.
   */
  readonly offloaded?: "needsGPU" | ((log: string) => Offloaded | undefined);
  /** More than one GPU needs more shared memory than the 64 MiB of a container. */
  readonly sharesMemory?: true;
  /** After one TERM it continues with requests in flight, after a second one it ends. It is process 1 of its container. */
  readonly endsAtSecondTerm?: true;
  /** Its image writes outside of /tmp. */
  readonly writesImage?: true;
  /** Its arguments, variables and probes are the user's own texts: fills in their placeholders. Throws MetalbridgeError. */
  readonly render?: (text: string, input: PodInput) => string;
  /** Fields of InferenceService.spec that it honours in a pod beside those of every runtime. */
  readonly settings: readonly string[];
  /** Throws MetalbridgeError for what it cannot be made to do. */
  readonly command: (input: PodInput) => PodCommand;
}

/** The Secret that a Hugging Face token comes from: the runtime's own setting, else the credentials of the source. */
function tokenVariable(
  model: Model,
  own?: { readonly name: string; readonly key?: string | undefined },
): PodVariable[] {
  const reference = own ?? model.spec.sourceSecretRef;
  if (reference === undefined) return [];
  return [{ name: "HF_TOKEN", secret: { name: reference.name, key: own?.key ?? "HF_TOKEN" } }];
}

/** Engines of Python: where the weights are, or what to fetch, as the library of Hugging Face names it. */
export interface HubWeights {
  /** A folder, or a repository. */
  readonly name: string;
  /** Branch, tag or commit of a repository. */
  readonly revision?: string;
  readonly env: readonly PodVariable[];
}

/** Throws `WeightsNotCached` for a source that such an engine cannot fetch. */
export function hubWeights(
  { model, weights }: Pick<PodInput, "model" | "weights">,
  token?: { readonly name: string; readonly key?: string | undefined },
): HubWeights {
  const env = [{ name: "HF_HUB_DISABLE_TELEMETRY", value: "1" }, ...tokenVariable(model, token)];
  // What is not on the volume must not be fetched in silence, at whatever revision it has today.
  if (weights !== undefined)
    return { name: weights.folder, env: [...env, { name: "HF_HUB_OFFLINE", value: "1" }] };
  const source = parseSource(model.spec.source);
  if (source.kind !== "hf") {
    const message = `only hf:// can be fetched by the engine itself, and spec.source is ${model.spec.source}`;
    throw new MetalbridgeError("WeightsNotCached", message);
  }
  return { name: source.repo, revision: model.status?.pinned?.revision ?? source.revision, env };
}

/** A name or value for each setting that is there; a switch for true, nothing for false. */
export function flagsOf(settings: Readonly<Record<string, string | number | boolean | undefined>>): string[] {
  return Object.entries(settings).flatMap(([flag, value]) => {
    if (value === undefined || value === false) return [];
    return value === true ? [flag] : [flag, String(value)];
  });
}

/** GPUs that one copy of the model spreads over: how many shards of a layer, and how many groups of layers. */
export function parallelSizes(
  { gpus: { count, strategy } }: PodInput,
  given: { readonly tensor?: number | undefined; readonly pipeline?: number | undefined } = {},
): { readonly tensor: number; readonly pipeline: number } {
  const isPipeline = strategy === "pipeline";
  const pipeline = given.pipeline ?? (isPipeline && given.tensor === undefined ? Math.max(count, 1) : 1);
  const rest = isPipeline || strategy === "none" ? 1 : Math.max(Math.floor(count / pipeline), 1);
  const tensor = given.tensor ?? rest;
  if (count > 0 && tensor * pipeline > count) {
    const message = `${tensor} tensor and ${pipeline} pipeline shards need ${tensor * pipeline} GPUs, and a pod has ${count}`;
    throw new MetalbridgeError("GPURequestInvalid", message);
  }
  return { tensor, pipeline };
}

/** Longest sequence of one request, in tokens, where the service sets a context: slots have equal shares of it. */
export function tokensPerRequest({
  contextSize,
  parallelSlots = 1,
  kvUnified,
}: InferenceServiceSpec): number | undefined {
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
