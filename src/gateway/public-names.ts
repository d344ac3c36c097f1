/**
 * Public names: the model names by which requests to a gateway reach a service. Gateways route by this table and the controller
 * reports its conflicts, so both always agree.
 */
import type { InferenceService } from "../api/inference-service/index.ts";
import { type RequestedName, requestedNames } from "../api/inference-service/model-names.ts";
import { modelNamesOf } from "../api/inference-service/roles.ts";
import { keyOf } from "../api/names.ts";
import { compareText } from "../util/text.ts";

/** A name that a service claims, in addition to its full name `namespace/name`. */
export interface ClaimedName extends RequestedName {
  /** The user asked for exactly this name. Otherwise it follows from the name of the service, or of an adapter. */
  readonly isRequested: boolean;
}

/** The part of a service that the table needs. `key` is `namespace/name`, which is also its full name. */
export interface ServiceNames {
  readonly key: string;
  readonly namespace: string;
  /** metadata.creationTimestamp */
  readonly createdAt: string;
  readonly claims: readonly ClaimedName[];
}

/** A service that answers requests for a name, and its share of them. */
export interface NameShare {
  readonly key: string;
  readonly weight: number;
}

/** A name that a service claims but does not have, and the service that has it. */
export interface TakenName extends ClaimedName {
  readonly by: string;
}

/** Services that a client may use, by `namespace/name`. Others take part in no answer, so nothing about them can leak. */
export type MayUse = (key: string) => boolean;

export interface PublicNames {
  /** Adds or replaces a service. Returns the services whose names or shares may have changed, including this one. */
  readonly set: (service: ServiceNames) => readonly string[];
  readonly remove: (key: string) => readonly string[];
  /** Services that share the requests for a name; empty if no service has it. */
  readonly sharesOf: (name: string, mayUse?: MayUse) => readonly NameShare[];
  /** Names by which requests reach a service, the full name first. */
  readonly namesOf: (key: string, mayUse?: MayUse) => readonly string[];
  /** Names that a service claims and other services have. */
  readonly takenFrom: (key: string) => readonly TakenName[];
}

/** The claims of a service: names that the user asked for, then its name and those of its adapters. */
export function serviceNamesOf({
  metadata,
  spec,
}: Pick<InferenceService, "metadata" | "spec">): ServiceNames {
  const { name, namespace = "default", creationTimestamp = "" } = metadata;
  const adapters = modelNamesOf(spec).adapters.filter(({ scale }) => scale === undefined);
  const claims: ClaimedName[] = [
    ...requestedNames(spec).map((requested) => ({ ...requested, isRequested: true })),
    ...[name, ...adapters.map((adapter) => adapter.name)].map((one) => ({ name: one, isRequested: false })),
  ];
  const key = keyOf({ namespace, name });
  const isFirst = (claim: ClaimedName, index: number) =>
    claim.name !== key && claims.findIndex((other) => other.name === claim.name) === index;
  return { key, namespace, createdAt: creationTimestamp, claims: claims.filter(isFirst) };
}

interface Claim {
  readonly service: ServiceNames;
  readonly weight: number | undefined;
}

/** An empty table. */
export function createPublicNames(): PublicNames {
  const services = new Map<string, ServiceNames>();
  /** Claims by name, the oldest service first. */
  const claims = new Map<string, Claim[]>();

  /** Claims of the services that share a name. */
  const holders = (name: string, mayUse?: MayUse): readonly Claim[] => {
    const full = services.get(name);
    if (full !== undefined && mayUse?.(name) !== false) return [{ service: full, weight: undefined }];
    const all = claims.get(name) ?? [];
    return sharing(mayUse === undefined ? all : all.filter(({ service }) => mayUse(service.key)));
  };
  const holds = (key: string, name: string, mayUse?: MayUse) =>
    holders(name, mayUse).some(({ service }) => service.key === key);

  const store = (key: string, next: ServiceNames | undefined) => {
    const before = services.get(key);
    if (before !== undefined) for (const { name } of before.claims) removeClaim(claims, name, before);
    services.delete(key);
    if (next === undefined) return;
    services.set(key, next);
    for (const { name, weight } of next.claims) addClaim(claims, name, { service: next, weight });
  };
  /** Replaces the claims of one service. */
  const change = (key: string, next: ServiceNames | undefined): readonly string[] => {
    const claimed = [services.get(key), next].flatMap((one) => one?.claims ?? []).map(({ name }) => name);
    const before = new Map([key, ...claimed].map((name) => [name, shareText(holders(name))]));
    store(key, next);
    const changed = [...before].filter(([name, held]) => shareText(holders(name)) !== held);
    const losers = changed.flatMap(([name]) => claims.get(name) ?? []).map(({ service }) => service.key);
    return [...new Set([key, ...losers])];
  };

  return {
    set: (service) => change(service.key, service),
    remove: (key) => change(key, undefined),
    sharesOf: (name, mayUse) => weighted(holders(name, mayUse)),
    namesOf: (key, mayUse) => {
      const service = services.get(key);
      if (service === undefined) return [];
      return [key, ...service.claims.map(({ name }) => name)].filter((name) => holds(key, name, mayUse));
    },
    takenFrom: (key) =>
      (services.get(key)?.claims ?? []).flatMap((claim) => {
        const [holder] = holders(claim.name);
        return holder === undefined || holds(key, claim.name) ? [] : [{ ...claim, by: holder.service.key }];
      }),
  };
}

/**
 * The oldest service has the name. If it gives the name a weight, services of its namespace that do the same share it with it.
 * A service of another namespace never does: it could take requests that are not meant for it.
 */
function sharing(claimed: readonly Claim[]): readonly Claim[] {
  const [first] = claimed;
  if (first === undefined) return [];
  if (first.weight === undefined) return [first];
  return claimed.filter(
    ({ service, weight }) => weight !== undefined && service.namespace === first.service.namespace,
  );
}

/** Services with weight 0 get no requests, unless no other service has a higher weight: then the oldest gets all of them. */
function weighted(holders: readonly Claim[]): readonly NameShare[] {
  const shares = holders.map(({ service, weight = 1 }) => ({ key: service.key, weight }));
  const positive = shares.filter(({ weight }) => weight > 0);
  return positive.length > 0 ? positive : shares.slice(0, 1).map(({ key }) => ({ key, weight: 1 }));
}

function byAge({ service: a }: Claim, { service: b }: Claim): number {
  return compareText(a.createdAt, b.createdAt) || compareText(a.key, b.key);
}

function shareText(holders: readonly Claim[]): string {
  return holders.map(({ service, weight }) => `${service.key}=${weight}`).join();
}

function addClaim(claims: Map<string, Claim[]>, name: string, claim: Claim): void {
  const claimed = claims.get(name) ?? [];
  claimed.splice(placeOf(claimed, claim), 0, claim);
  claims.set(name, claimed);
}

function removeClaim(claims: Map<string, Claim[]>, name: string, service: ServiceNames): void {
  const claimed = claims.get(name) ?? [];
  claimed.splice(placeOf(claimed, { service, weight: undefined }), 1);
  if (claimed.length === 0) claims.delete(name);
}

/** Index of the first claim that is not older, by binary search: thousands of services may have the same name. */
function placeOf(claimed: readonly Claim[], claim: Claim): number {
  let low = 0;
  let high = claimed.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const other = claimed[middle];
    if (other !== undefined && byAge(other, claim) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
