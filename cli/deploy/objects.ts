/** The objects that `metalbridge deploy` creates. */

import { nearestNames } from "../../fitness/catalog/match.ts";
import { isAddress, type WeightsRef } from "../../fitness/catalog/weights.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { MODELS } from "../../src/api/kinds.ts";
import type { Model } from "../../src/api/model.ts";
import {
  type DeploymentSettings,
  deployedModel,
  deployedService,
  deploymentName,
} from "../../src/models/deployment.ts";
import { parseSource } from "../../src/models/source/parse.ts";
import { readCatalogFiles } from "../catalog/read.ts";
import { weightsOf } from "../catalog/weights.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { findIfPresent } from "../cluster/find.ts";

export interface DeployFlags extends DeploymentSettings {
  readonly name?: string;
  readonly quantization?: string;
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
  /** Similar names of the catalog, for a name without a scheme that is taken as a repository of the Hub. */
  readonly similar?: readonly string[] | undefined;
}

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
    return { service: deployedService({ namespace, name: flags.name ?? weights }, weights, flags) };
  }
  const catalog = await readCatalogFiles(flags.catalog);
  const found = weightsOf(catalog, weights, flags);
  const name = flags.name ?? nameOfWeights(found);
  const { secret } = flags;
  return {
    model: deployedModel({ namespace, name }, { ...found, secret }),
    service: deployedService({ namespace, name }, name, { ...flags, mode: flags.mode ?? found.mode }),
    catalogModel: found.model,
    similar: isGuessed(weights, found) ? nearestNames(catalog.records, weights).slice(0, 3) : undefined,
  };
}

function isGuessed(weights: string, { source, model }: WeightsRef): boolean {
  return model === undefined && !isAddress(weights) && source === `hf://${weights}`;
}

function nameOfWeights({ model, source }: WeightsRef): string {
  return deploymentName(parseSource(model ? `hf://${model}` : source));
}

/** The name of a Model is a DNS name, without slash and colon. */
async function isModel(cluster: Cluster, weights: string): Promise<boolean> {
  return /^[a-z0-9.-]+$/.test(weights) && (await findIfPresent(cluster, MODELS, weights)) !== undefined;
}
