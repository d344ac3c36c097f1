/** Weights on a volume of the pod itself, which init containers fill before the engine starts. Pure. */
import { MetalbridgeError } from "../api/errors.ts";
import { canonicalQuantity } from "../api/fields/quantity.ts";
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";
import type { Model } from "../api/model.ts";
import type { Container } from "../kube/workload-objects.ts";
import { fileNameOf, parseSource } from "../models/source/source.ts";
import { podSource } from "./cache-wish.ts";
import type { LinuxSettings, Weights } from "./contract.ts";
import { CACHE_VOLUME, cacheKeyOf, caVolumes, FETCH_CONTAINER, fetchContainer } from "./model-cache.ts";
import type { Volume } from "./volumes.ts";

const MIB = 2 ** 20;
/** Room for what is not weights: small files of the repository, and the index of the store. */
const SPARE_BYTES = 1024 * MIB;
/** Name in the folder for what was fetched: that of the store's own folder follows the content. */
const LINK = "model";

/** Whether each pod of the service fetches the weights of the Model by an init container. */
export function isEphemeral({ modelCache }: InferenceServiceSpec, { spec }: Model): boolean {
  return modelCache?.persistence === "Ephemeral" && parseSource(spec.source).kind !== "pvc";
}

/** Throws `WeightsNotCached` where the names of the files are not known. */
export function ephemeralWeights(model: Model): Weights {
  const { spec, status } = model;
  const source = parseSource(spec.source);
  const format = status?.format ?? spec.format;
  const { files = [] } = status ?? {};
  const main = files[0] ?? fileNameOf(source);
  if (main === undefined)
    throw new MetalbridgeError("WeightsNotCached", `the files of Model ${model.metadata.name} are not known`);
  const isFolder = format !== "gguf" && files.length > 1;
  return {
    ...{ folder: cacheKeyOf(model), file: isFolder ? LINK : `${LINK}/${main}`, fetched: model },
    ...(isFolder ? { isFolder } : {}),
    ...(spec.mmproj === undefined ? {} : { projector: `${LINK}/${spec.mmproj}` }),
  };
}

export interface Fetching {
  readonly initContainers: readonly Container[];
  readonly volumes: readonly Volume[];
  /** Quantity: what the volume may grow to; a kubelet evicts a pod that writes more. */
  readonly sizeLimit: string;
}

/** Undefined where no weights are fetched into the pod. Throws MetalbridgeError. */
export function fetchingOf(
  weights: readonly Weights[],
  { resources }: InferenceServiceSpec,
  { fetch }: LinuxSettings,
): Fetching | undefined {
  const byFolder = new Map(
    weights.flatMap(({ folder, fetched }) => (fetched === undefined ? [] : [[folder, fetched] as const])),
  );
  if (byFolder.size === 0) return undefined;
  if (fetch?.image === undefined) {
    const message = "the controller knows no image for the init container that fetches the weights";
    throw new MetalbridgeError("WeightsNotCached", message, {
      summary: "set --image of the controller, or remove spec.modelCache.persistence Ephemeral",
    });
  }
  const models = [...byFolder.values()];
  const sizeLimit = canonicalQuantity(resources?.ephemeralStorage ?? roomFor(models) ?? fetch.cacheSize);
  const initContainers = [...byFolder].map(([folder, model], index) => {
    const wish = {
      ...({ at: "volume", claimName: "", isOurs: false } as const),
      folder,
      source: podSource(model),
    };
    const revision = model.status?.pinned?.revision;
    const name = index === 0 ? FETCH_CONTAINER : `${FETCH_CONTAINER}-${index + 1}`;
    return { ...fetchContainer({ model, wish, revision, link: LINK }, fetch), name };
  });
  return {
    initContainers,
    volumes: [{ name: CACHE_VOLUME, emptyDir: { sizeLimit } }, ...caVolumes(fetch)],
    sizeLimit,
  };
}

function roomFor(models: readonly Model[]): string | undefined {
  let sum = SPARE_BYTES;
  for (const { status } of models) {
    if (status?.sizeBytes === undefined) return undefined;
    sum += status.sizeBytes;
  }
  return `${Math.ceil(sum / MIB)}Mi`;
}
