/** The objects that `metalbridge deploy` creates. */

import { MetalbridgeError } from "../../src/api/errors.ts";
import { API_VERSION } from "../../src/api/group.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Model } from "../../src/api/model.ts";
import type { ModelSource } from "../../src/models/source/kinds/registry.ts";
import { parseSource, shortNameOf } from "../../src/models/source/parse.ts";
import { defined } from "../../src/util/defined.ts";
import { readCatalogFiles } from "../catalog/read.ts";
import { type WeightsRef, weightsOf } from "../catalog/weights.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { findIfPresent } from "../cluster/find.ts";

export interface DeployFlags {
  readonly name?: string;
  readonly runtime?: string;
  readonly quantization?: string;
  readonly replicas?: number;
  readonly contextSize?: number;
  readonly slots?: number;
  readonly priority?: string;
  readonly mode?: string | undefined;
  readonly secret?: string;
  readonly catalog?: readonly string[];
}

/** Objects without defaults, which the API server sets. */
export interface DeployObjects {
  /** Absent if the Model exists. */
  readonly model?: Model;
  readonly service: InferenceService;
  /** Name of the catalog model, if the weights are from the catalog. */
  readonly catalogModel?: string | undefined;
}

const NAME_MAX = 50;

/** `weights` is a Model of the namespace, or any name that `weightsOf` resolves. Throws the errors of `weightsOf`. */
export async function objectsOf(
  cluster: Cluster,
  weights: string,
  flags: DeployFlags,
): Promise<DeployObjects> {
  const { namespace } = cluster;
  if (await isModel(cluster, weights)) {
    if (flags.quantization !== undefined || flags.secret !== undefined)
      throw new MetalbridgeError(
        "ManifestInvalid",
        `--quantization and --secret belong to a Model, and ${weights} exists`,
      );
    return { service: serviceOf(namespace, flags.name ?? weights, weights, flags) };
  }
  const found = weightsOf(await readCatalogFiles(flags.catalog), weights, flags);
  const name = flags.name ?? nameOf(parseSource(found.model ? `hf://${found.model}` : found.source));
  return {
    model: modelOf(namespace, name, found, flags),
    service: serviceOf(namespace, name, name, { ...flags, mode: flags.mode ?? found.mode }),
    catalogModel: found.model,
  };
}

/** The name of a Model is a DNS name, without slash and colon. */
async function isModel(cluster: Cluster, weights: string): Promise<boolean> {
  return /^[a-z0-9.-]+$/.test(weights) && (await findIfPresent(cluster, MODELS, weights)) !== undefined;
}

function modelOf(
  namespace: string,
  name: string,
  { source, quantization }: WeightsRef,
  flags: DeployFlags,
): Model {
  return {
    apiVersion: API_VERSION,
    kind: MODELS.kind,
    metadata: { name, namespace },
    spec: defined({
      source,
      quantization,
      sourceSecretRef: flags.secret === undefined ? undefined : { name: flags.secret },
    }) as Model["spec"],
  };
}

function serviceOf(namespace: string, name: string, modelRef: string, flags: DeployFlags): InferenceService {
  return {
    apiVersion: API_VERSION,
    kind: INFERENCE_SERVICES.kind,
    metadata: { name, namespace },
    spec: defined({
      modelRef,
      runtime: flags.runtime,
      mode: flags.mode,
      replicas: flags.replicas,
      contextSize: flags.contextSize,
      parallelSlots: flags.slots,
      priority: flags.priority,
    }) as InferenceService["spec"],
  };
}

/** A valid object name from the name of the file, repository or tag, such as "qwen3-0-6b-q8-0". */
export function nameOf(source: ModelSource): string {
  const name = shortNameOf(source)
    .replace(/\.(gguf|safetensors)$/i, "")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, NAME_MAX)
    .replaceAll(/^[^a-z]+|-+$/g, "");
  return name === "" ? "model" : name;
}
