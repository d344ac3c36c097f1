/** What a runtime is as the container of a pod: image, port, arguments, probes, metrics. */
import type { EngineSettings } from "../api/engine-settings.ts";
import type { Accelerator } from "../api/fields/hardware.ts";
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";
import type { Model } from "../api/model.ts";

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
}

export interface PodCommand {
  /** Absent: the image's own. */
  readonly command?: readonly string[];
  readonly args: readonly string[];
  readonly env: readonly PodVariable[];
}

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
  /** How it gets the API key: as a file, or as a variable. Absent: it checks none. */
  readonly apiKey?: "file" | { readonly variable: string };
  /** It cannot fetch the weights itself. */
  readonly needsWeights?: true;
  /** More than one GPU needs more shared memory than the 64 MiB of a container. */
  readonly sharesMemory?: true;
  /** Its image writes outside of /tmp. */
  readonly writesImage?: true;
  /** Its arguments are the user's own text, in which Kubernetes resolves $(NAME) as in any pod. */
  readonly expandsVariables?: true;
  /** Fields of InferenceService.spec that it honours in a pod beside those of every runtime. */
  readonly settings: readonly string[];
  /** Throws MetalbridgeError for what it cannot be made to do. */
  readonly command: (input: PodInput) => PodCommand;
}

/** The Secret that a Hugging Face token comes from: the runtime's own setting, else the credentials of the source. */
export function tokenVariable(
  model: Model,
  own?: { readonly name: string; readonly key?: string | undefined },
): PodVariable[] {
  const reference = own ?? model.spec.sourceSecretRef;
  if (reference === undefined) return [];
  return [{ name: "HF_TOKEN", secret: { name: reference.name, key: own?.key ?? "HF_TOKEN" } }];
}
