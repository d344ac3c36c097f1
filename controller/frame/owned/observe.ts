/** Reads a service from the watches: the service, its objects, and objects of earlier services of its name. */
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import type { Watches } from "../watches/watches.ts";
import {
  hasNameOf,
  type Owned,
  type OwnedKind,
  ownedKinds,
  ownedRow,
  ownerOf,
  perOwnedKind,
  uidLabelOf,
} from "./kinds.ts";

/** Objects that belong to one uid of a service. */
export type OwnedObjects = { readonly [K in OwnedKind]: readonly Owned[K][] } & {
  /** Pods of the Deployment and of groups. */
  readonly pods: readonly Pod[];
};

export const NO_OWNED_OBJECTS: OwnedObjects = { ...perOwnedKind(() => []), pods: [] };

export interface ObservedService {
  readonly service?: InferenceService;
  readonly own: OwnedObjects;
  /** Objects of earlier services of the same name, by the uid of the service. */
  readonly orphans: ReadonlyMap<string, OwnedObjects>;
}

/** Reads only the watches, never the API server. */
export function observeService(watches: Watches, key: string): ObservedService {
  const service = watches.services.get(key);
  const uid = service?.metadata.uid;
  const [, name = ""] = key.split("/");
  const named = perOwnedKind((what) =>
    watches.ofService[what].of(key).filter((object) => hasNameOf(name, what, object)),
  );
  const all = { ...named, pods: watches.podsOfService.of(key) } as OwnedObjects;
  const uids = new Set(ownedKinds.flatMap((what) => all[what].map((object) => ownerOf(what, object).uid)));
  const orphans = new Map<string, OwnedObjects>();
  for (const other of uids)
    if (other !== uid && other !== undefined && other !== "") orphans.set(other, ownedBy(all, other));
  return { service, own: ownedBy(all, uid), orphans };
}

function ownedBy(all: OwnedObjects, uid: string | undefined): OwnedObjects {
  if (uid === undefined) return NO_OWNED_OBJECTS;
  const own = perOwnedKind((what) => all[what].filter((object) => ownerOf(what, object).uid === uid));
  return { ...own, pods: all.pods.filter((pod) => uidLabelOf(pod) === uid) } as OwnedObjects;
}

/** Without the kinds that services on hosts use too. */
export function ownedForPods(own: OwnedObjects): OwnedObjects {
  const forPods = perOwnedKind((what) => (ownedRow(what).isForPods === true ? own[what] : []));
  return { ...forPods, pods: [] } as unknown as OwnedObjects;
}
