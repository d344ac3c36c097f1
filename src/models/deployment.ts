/** The objects that deploy a model: `metalbridge deploy` and the console create the same ones. Pure. */
import { API_VERSION } from "../api/group.ts";
import type { InferenceService } from "../api/inference-service/index.ts";
import type { Model } from "../api/model.ts";
import { defined } from "../util/defined.ts";
import type { ModelSource } from "./source/kinds/registry.ts";
import { shortNameOf } from "./source/parse.ts";

export interface DeploymentTarget {
  readonly namespace: string;
  readonly name: string;
}

export interface DeployedWeights {
  readonly source: string;
  readonly quantization?: string | undefined;
  /** Secret with credentials for the source. */
  readonly secret?: string | undefined;
}

export interface DeploymentSettings {
  readonly runtime?: string | undefined;
  readonly replicas?: number | undefined;
  readonly contextSize?: number | undefined;
  readonly slots?: number | undefined;
  readonly priority?: string | undefined;
  readonly mode?: string | undefined;
}

const NAME_MAX = 50;

/** Without defaults, which the API server sets. */
export function deployedModel(
  { namespace, name }: DeploymentTarget,
  { source, quantization, secret }: DeployedWeights,
): Model {
  return {
    apiVersion: API_VERSION,
    kind: "Model",
    metadata: { name, namespace },
    spec: defined({
      source,
      quantization,
      sourceSecretRef: secret === undefined ? undefined : { name: secret },
    }) as Model["spec"],
  };
}

/** Without defaults, which the API server sets. */
export function deployedService(
  { namespace, name }: DeploymentTarget,
  modelRef: string,
  settings: DeploymentSettings,
): InferenceService {
  const { runtime, mode, replicas, contextSize, slots, priority } = settings;
  return {
    apiVersion: API_VERSION,
    kind: "InferenceService",
    metadata: { name, namespace },
    spec: defined({
      modelRef,
      runtime,
      mode,
      replicas,
      contextSize,
      parallelSlots: slots,
      priority,
    }) as InferenceService["spec"],
  };
}

/** A valid object name from the name of the file, repository or tag, such as "qwen3-0-6b-q8-0". */
export function deploymentName(source: ModelSource): string {
  const name = shortNameOf(source)
    .replace(/\.(gguf|safetensors)$/i, "")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, NAME_MAX)
    .replaceAll(/^[^a-z]+|-+$/g, "");
  return name === "" ? "model" : name;
}
