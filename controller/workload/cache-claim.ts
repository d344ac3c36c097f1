/** The claims of the model cache: which one holds the weights of a Model, how large it is, and who can mount it. Pure. */
import { LABEL_MODEL_CACHE } from "../../src/api/group.ts";
import type { Model } from "../../src/api/model.ts";
import type { PersistentVolumeClaim } from "../../src/kube/workload-objects.ts";
import type { CacheSettings } from "./contract.ts";
import { type CacheVolumeSpec, cacheKeyOf, MANAGED, namespaceOf, ownedBy, shortName } from "./model-cache.ts";

const SHARED_CLAIM = "metalbridge-model-cache";
const GIB = 2 ** 30;
/** What a file system takes for itself, and small files of the repository. */
const SPARE_PART = 1.05;
const SPARE_BYTES = GIB;

/** A volume that one node mounts serves one Model: a second Model may need another node. */
function scopeOf({ cacheScope, cacheAccessMode }: CacheSettings): "Namespace" | "Model" {
  return cacheScope ?? (cacheAccessMode === "ReadWriteMany" ? "Namespace" : "Model");
}

/** The claim of a Model's weights where no service names one. Weights that are on either claim stay there. */
export function cacheClaimName(model: Model, settings: CacheSettings): string {
  const own = ownClaimName(model);
  const { phase, claimName, folder, filledBy } = model.status?.cache ?? {};
  const isThere = folder === cacheKeyOf(model) && (phase === "Ready" || filledBy === "Pods");
  if (isThere && (claimName === SHARED_CLAIM || claimName === own)) return claimName;
  return scopeOf(settings) === "Namespace" ? SHARED_CLAIM : own;
}

/** The claim that only this Model's weights are on. */
export function ownClaimName({ metadata }: Model): string {
  return shortName(metadata.name, "-model-cache", 253);
}

/** Whether the claim to create is for this Model alone, so that it can have the size of its weights. */
export function isSizedByModel(model: Model, { claimName, isOurs }: CacheVolumeSpec): boolean {
  return isOurs && claimName === ownClaimName(model);
}

/** Whether pods on several nodes can mount a volume with these access modes. */
export function isMountedByNodes(accessModes: readonly string[] = []): boolean {
  return accessModes.includes("ReadWriteMany");
}

/** Room for the weights of a Model; `cacheSize` where the source does not state their size. */
function sizeFor({ status }: Model, { cacheSize }: CacheSettings): string {
  const { sizeBytes } = status ?? {};
  return sizeBytes === undefined ? cacheSize : `${Math.ceil((sizeBytes * SPARE_PART + SPARE_BYTES) / GIB)}Gi`;
}

/** Only for a claim that is ours. It outlives its Models unless it is for one of them. */
export function buildCacheClaim(
  model: Model,
  wish: CacheVolumeSpec,
  settings: CacheSettings,
): PersistentVolumeClaim {
  const { cacheStorageClass, cacheAccessMode, cacheSize } = settings;
  const isPerModel = isSizedByModel(model, wish);
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      name: wish.claimName,
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
