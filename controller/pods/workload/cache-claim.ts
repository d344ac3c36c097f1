/** The claims of the model cache: which one holds the weights of a Model, how large it is, and who can mount it. Pure. */
import { LABEL_MODEL_CACHE } from "../../../src/api/group.ts";
import type { Model } from "../../../src/api/model.ts";
import type { PersistentVolumeClaim } from "../../../src/kube/workload-objects.ts";
import type { CacheSettings } from "./contract.ts";
import { type CacheVolumeSpec, cacheKeyOf, MANAGED, namespaceOf, ownedBy, shortName } from "./model-cache.ts";

const SHARED_CLAIM = "metalbridge-model-cache";
const GIB = 2 ** 30;
/** Room for the file system's own data and for small files of the repository. */
const SPARE_PART = 1.05;
const SPARE_BYTES = GIB;

/** The default for a volume that only one node can mount is one Model, because a second Model may need another node. */
function scopeOf({ cacheScope, cacheAccessMode }: CacheSettings): "Namespace" | "Model" {
  return cacheScope ?? (cacheAccessMode === "ReadWriteMany" ? "Namespace" : "Model");
}

/** The claim for a Model's weights if no service names one. Weights that already are on one of the two claims stay there. */
export function cacheClaimName(model: Model, settings: CacheSettings): string {
  const own = ownClaimName(model);
  const { phase, claimName, folder, filledBy } = model.status?.cache ?? {};
  const hasWeights = folder === cacheKeyOf(model) && (phase === "Ready" || filledBy === "Pods");
  if (hasWeights && (claimName === SHARED_CLAIM || claimName === own)) return claimName;
  return scopeOf(settings) === "Namespace" ? SHARED_CLAIM : own;
}

/** The claim that holds only this Model's weights. */
export function ownClaimName({ metadata }: Model): string {
  return shortName(metadata.name, "-model-cache", 253);
}

/** True if the claim is for this Model alone, so its size can follow the size of the weights. */
export function isSizedByModel(model: Model, { claimName, isOurs }: CacheVolumeSpec): boolean {
  return isOurs && claimName === ownClaimName(model);
}

/** True if pods on several nodes can mount a volume with these access modes. */
export function isMountedByNodes(accessModes: readonly string[] = []): boolean {
  return accessModes.includes("ReadWriteMany");
}

/** Storage for the weights of a Model; `cacheSize` if the source does not state their size. */
function sizeFor({ status }: Model, { cacheSize }: CacheSettings): string {
  const { sizeBytes } = status ?? {};
  return sizeBytes === undefined ? cacheSize : `${Math.ceil((sizeBytes * SPARE_PART + SPARE_BYTES) / GIB)}Gi`;
}

/** Only for claims that the controller creates. A claim for a namespace outlives its Models. */
export function buildCacheClaim(
  model: Model,
  volume: CacheVolumeSpec,
  settings: CacheSettings,
): PersistentVolumeClaim {
  const { cacheStorageClass, cacheAccessMode, cacheSize } = settings;
  const isPerModel = isSizedByModel(model, volume);
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      name: volume.claimName,
      namespace: namespaceOf(model),
      labels: { ...MANAGED, [LABEL_MODEL_CACHE]: isPerModel ? "Model" : "Namespace" },
      ...(isPerModel ? ownedBy(model) : {}),
    },
    spec: {
      accessModes: [cacheAccessMode],
      storageClassName: cacheStorageClass,
      resources: { requests: { storage: isPerModel ? sizeFor(model, settings) : cacheSize } },
    },
  };
}
