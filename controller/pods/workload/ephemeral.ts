/** Weights that init containers of a pod fetch, to the pod's own volume or to a claim. Pure. */
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { canonicalQuantity, parseQuantity, type Quantity } from "../../../src/api/fields/quantity.ts";
import type { InferenceServiceSpec } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import type { Container } from "../../../src/kube/workload-objects.ts";
import { fileNameOf, parseSource } from "../../../src/models/source/parse.ts";
import { formatBytes } from "../../../src/util/bytes.ts";
import { ownClaimName } from "./cache-claim.ts";
import { podSource } from "./cache-eligibility.ts";
import type { MountedWeights, PodsSettings, Volume } from "./contract.ts";
import {
  CACHE_VOLUME,
  type CacheVolumeSpec,
  cacheKeyOf,
  caVolumes,
  FETCH_CONTAINER,
  fetchContainer,
  linkOf,
} from "./model-cache.ts";

const MIB = 2 ** 20;
/** Room for everything but weights: small files of the repository, and the index of the store. */
const SPARE_BYTES = 1024 * MIB;

/** True if an init container of each pod fetches the weights of the Model. */
export function isEphemeral({ modelCache }: InferenceServiceSpec, { spec }: Model): boolean {
  return modelCache?.persistence === "Ephemeral" && parseSource(spec.source).kind !== "pvc";
}

/** Throws `WeightsNotCached` if the names of the files are unknown. */
export function ephemeralWeights(model: Model): MountedWeights {
  const { spec, status } = model;
  const link = linkOf(model);
  const source = parseSource(spec.source);
  const format = status?.format ?? spec.format;
  const { files = [] } = status ?? {};
  const main = files[0] ?? fileNameOf(source);
  if (main === undefined)
    throw new MetalbridgeError("WeightsNotCached", `the files of Model ${model.metadata.name} are not known`);
  const isFolder = format !== "gguf" && files.length > 1;
  return {
    folder: cacheKeyOf(model),
    file: isFolder ? link : `${link}/${main}`,
    fetched: { model, link },
    isFolder,
    projector: spec.mmproj && `${link}/${spec.mmproj}`,
  };
}

/** Weights on a claim that pods fill; undefined for other claims. Throws `WeightsNotCached`. */
export function weightsFilledByPods(model: Model): MountedWeights | undefined {
  const { filledBy, claimName } = model.status?.cache ?? {};
  if (filledBy !== "Pods" || claimName === undefined) return undefined;
  return { claimName, ...ephemeralWeights(model) };
}

export interface Fetching {
  /** `isAlone` is true if no other pod has the claim mounted while the init containers run. */
  readonly initContainers: (isAlone: boolean) => readonly Container[];
  readonly volumes: readonly Volume[];
  /** Maximum size of the pod's own volume. A kubelet evicts a pod that writes more. Absent if the pod has no such volume. */
  readonly sizeLimit?: string;
  /** The claim that the pods fill. Only one node at a time can mount it. */
  readonly claim?: string;
}

/** Undefined if the pod fetches no weights. `volumeOf` names the volume of a claim. Throws MetalbridgeError. */
export function fetchingOf(
  weights: readonly MountedWeights[],
  { resources }: InferenceServiceSpec,
  { fetch }: PodsSettings,
  volumeOf: (claimName: string | undefined) => string,
): Fetching | undefined {
  const byPlace = new Map(
    weights.flatMap(({ claimName, folder, fetched }) =>
      fetched === undefined
        ? []
        : [[`${claimName}/${folder}/${fetched.link}`, { ...fetched, claimName, folder }] as const],
    ),
  );
  if (byPlace.size === 0) return undefined;
  if (fetch?.image === undefined) {
    const message = "the controller has no image for the init container that fetches the weights";
    throw new MetalbridgeError("WeightsNotCached", message, {
      summary: "set --image of the controller, or remove spec.modelCache.persistence Ephemeral",
    });
  }
  const downloads = [...byPlace.values()];
  const initContainers = (isAlone: boolean) =>
    downloads.map(({ model, link, claimName, folder }, index) => {
      const volume: CacheVolumeSpec = {
        at: "volume",
        claimName: claimName ?? "",
        isOurs: false,
        folder,
        source: podSource(model),
      };
      const name = index === 0 ? FETCH_CONTAINER : `${FETCH_CONTAINER}-${index + 1}`;
      const container = fetchContainer(
        {
          model,
          volume,
          link,
          volumeName: volumeOf(claimName),
          revision: model.status?.pinned?.revision,
          makesRoom: isAlone && claimName === ownClaimName(model),
        },
        fetch,
      );
      return { ...container, name };
    });
  const inPod = downloads.flatMap(({ model, claimName }) => (claimName === undefined ? [model] : []));
  const claim = downloads.find(({ claimName }) => claimName !== undefined)?.claimName;
  if (inPod.length === 0) return { initContainers, volumes: caVolumes(fetch), claim };
  checkRoom(resources?.ephemeralStorage, inPod);
  const sizeLimit = canonicalQuantity(resources?.ephemeralStorage ?? roomFor(inPod) ?? fetch.cacheSize);
  return {
    initContainers,
    volumes: [{ name: CACHE_VOLUME, emptyDir: { sizeLimit } }, ...caVolumes(fetch)],
    sizeLimit,
    claim,
  };
}

/** Rejects a volume that is smaller than the weights: the kubelet would evict each pod during its download. */
function checkRoom(given: Quantity | undefined, models: readonly Model[]): void {
  const needed = models.reduce((sum, { status }) => sum + (status?.sizeBytes ?? 0), 0);
  const bytes = given === undefined ? undefined : parseQuantity(given);
  if (bytes === undefined || bytes >= needed) return;
  const message = `each pod downloads ${formatBytes(needed)} of weights, and spec.resources.ephemeralStorage is ${given}: raise it`;
  throw new MetalbridgeError("DiskFull", message);
}

function roomFor(models: readonly Model[]): string | undefined {
  let sum = SPARE_BYTES;
  for (const { status } of models) {
    if (status?.sizeBytes === undefined) return undefined;
    sum += status.sizeBytes;
  }
  return `${Math.ceil(sum / MIB)}Mi`;
}
