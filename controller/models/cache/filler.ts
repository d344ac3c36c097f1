/** Decides what fills a volume: a download Job before any pod mounts it, or the pods that mount it. Pure. */
import type {
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "../../../src/kube/workload-objects.ts";
import { isMountedByNodes } from "../../pods/workload/cache-claim.ts";

/** Storage behind a claim. */
export type ObservedStorage =
  /** Undefined: the claim names no class, or none of this name exists, so only existing volumes are bound to it, and at once. */
  | { readonly at: "unbound"; readonly storageClass: StorageClass | undefined }
  /** Undefined if the volume cannot be read. */
  | { readonly at: "bound"; readonly volume: PersistentVolume | undefined };

export type Filler =
  | { readonly by: "Job" }
  /** The reason is absent if the status already has it. */
  | { readonly by: "Pods"; readonly because?: string }
  /** Known once the claim exists and is bound to a volume. */
  | { readonly by: "undecided" };

export const JOB: Filler = { by: "Job" };
export const UNDECIDED: Filler = { by: "undecided" };

export function filledByPods(because: string): Filler {
  return { by: "Pods", because };
}

/**
 * A Job must not choose the node of a volume, because it does not need what the engine needs, such as a GPU. So it fills a
 * volume that one node at a time can mount only if any node, or any node of a zone, can be that node.
 */
export function judgeFiller({ spec }: PersistentVolumeClaim, storage: ObservedStorage): Filler {
  if (isMountedByNodes(spec.accessModes)) return JOB;
  if (spec.accessModes?.includes("ReadWriteOnce") !== true)
    return filledByPods(
      `access mode ${spec.accessModes?.join(", ")} lets one pod mount the volume, not a Job beside it`,
    );
  switch (storage.at) {
    case "unbound": {
      const { metadata, volumeBindingMode } = storage.storageClass ?? {};
      if (volumeBindingMode !== "WaitForFirstConsumer") return UNDECIDED;
      return filledByPods(
        `StorageClass ${metadata?.name} chooses the volume's node by its first pod (WaitForFirstConsumer)`,
      );
    }
    case "bound":
      return judgeVolume(storage.volume);
    default:
      return storage satisfies never;
  }
}

function judgeVolume(volume: PersistentVolume | undefined): Filler {
  if (volume === undefined) return filledByPods("its volume cannot be read");
  const { metadata, spec } = volume;
  if (spec.hostPath !== undefined || spec.local !== undefined)
    return filledByPods(`volume ${metadata.name} is a folder of a node`);
  const key = nodeKeys(volume).find((one) => !isOfZone(one));
  return key === undefined ? JOB : filledByPods(`only some nodes can mount volume ${metadata.name} (${key})`);
}

/** Keys of node labels and fields that the volume requires. */
function nodeKeys({ spec }: PersistentVolume): readonly string[] {
  const terms = spec.nodeAffinity?.required?.nodeSelectorTerms ?? [];
  return terms.flatMap(({ matchExpressions = [], matchFields = [] }) =>
    [...matchExpressions, ...matchFields].map(({ key }) => key),
  );
}

/** True for labels such as topology.kubernetes.io/zone and topology.gke.io/zone: all pods of the claim run in that zone anyway. */
function isOfZone(key: string): boolean {
  return /\/(zone|region)$/.test(key);
}
