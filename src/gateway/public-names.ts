/**
 * Public names: the model names by which requests to a gateway reach a service. Gateways route by this table and the controller
 * reports its conflicts, so both always agree.
 */
import type { InferenceService } from "../api/inference-service/index.ts";
import { type RequestedName, requestedNames } from "../api/inference-service/model-names.ts";
import { modelNamesOf } from "../api/inference-service/roles.ts";
import { keyOf } from "../api/names.ts";
import { compareText } from "../util/text.ts";

/** A DNS label before the first slash. */
const NAMESPACE_OF_NAME = /^([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)\//;
/** Later than any time. */
const LAST = "~";

/** A name that a service claims, in addition to its full name `namespace/name`. */
export interface ClaimedName extends RequestedName {
  /** The user asked for exactly this name. Otherwise it follows from the name of the service, or of an adapter. */
  readonly isRequested: boolean;
  /** Since when the service claims the name. Undefined until the controller has recorded it: such a claim comes after all others. */
  readonly since: string | undefined;
  /** False if the name may belong to another namespace and the controller has not accepted it. No request gets there by it. */
  readonly isAccepted: boolean;
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

/** Services that a client may use, by `namespace/name`. Others take part in no response, so nothing about them can leak. */
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
  /** Since when the service that has a name claims it. Undefined for a full name, and for a claim that is not recorded. */
  readonly heldSince: (name: string) => string | undefined;
}

/** The namespace before the slash, such as openai in openai/gpt-oss-20b. Undefined if it is `own`, or no name of a namespace. */
export function otherNamespaceOf(name: string, own: string): string | undefined {
  const namespace = NAMESPACE_OF_NAME.exec(name)?.[1];
  return namespace === own ? undefined : namespace;
}

/**
 * The claims of a service: names that the user asked for, then its name and those of its adapters. A service without a record of
 * claims is new: it claims all its names since its creation.
 */
export function serviceNamesOf({
  metadata,
  spec,
  status,
}: Pick<InferenceService, "metadata" | "spec" | "status">): ServiceNames {
  const { name, namespace = "default", creationTimestamp = "" } = metadata;
  const adapters = modelNamesOf(spec).adapters.filter(({ scale }) => scale === undefined);
  const names = [
    ...requestedNames(spec).map((requested) => ({ ...requested, isRequested: true })),
    ...[name, ...adapters.map((adapter) => adapter.name)].map((one) => ({ name: one, isRequested: false })),
  ];
  const key = keyOf({ namespace, name });
  const isFirst = (claim: RequestedName, index: number) =>
    claim.name !== key && names.findIndex((other) => other.name === claim.name) === index;
  const record = status?.modelNames && new Map(status.modelNames.map((one) => [one.name, one.since]));
  const claims = names.filter(isFirst).map(
    (claim): ClaimedName => ({
      ...claim,
      since: record === undefined ? creationTimestamp : record.get(claim.name),
      isAccepted: record?.has(claim.name) === true || otherNamespaceOf(claim.name, namespace) === undefined,
    }),
  );
  return { key, namespace, createdAt: creationTimestamp, claims };
}

interface Claim extends Pick<ClaimedName, "weight" | "since" | "isAccepted"> {
  readonly service: ServiceNames;
}

/** An empty table. */
export function createPublicNames(): PublicNames {
  const services = new Map<string, ServiceNames>();
  /** Claims by name, the earliest first. */
  const claims = new Map<string, Claim[]>();

  /** Claims of the services that share a name. */
  const holders = (name: string, mayUse?: MayUse): readonly Claim[] => {
    const full = services.get(name);
    if (full !== undefined && mayUse?.(name) !== false) return [fullNameOf(full)];
    const all = acceptedOf(name, claims.get(name) ?? []);
    return sharing(mayUse === undefined ? all : all.filter(({ service }) => mayUse(service.key)));
  };
  const holds = (key: string, name: string, mayUse?: MayUse) =>
    holders(name, mayUse).some(({ service }) => service.key === key);

  const store = (key: string, next: ServiceNames | undefined) => {
    const before = services.get(key);
    if (before !== undefined) for (const claim of before.claims) removeClaim(claims, claim, before);
    services.delete(key);
    if (next === undefined) return;
    services.set(key, next);
    for (const claim of next.claims) addClaim(claims, claim, next);
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
    heldSince: (name) => holders(name)[0]?.since,
  };
}

function fullNameOf(service: ServiceNames): Claim {
  return { service, weight: undefined, since: undefined, isAccepted: true };
}

/** Only names with a slash need acceptance. Others may have thousands of claims. */
function acceptedOf(name: string, claimed: readonly Claim[]): readonly Claim[] {
  return name.includes("/") ? claimed.filter(({ isAccepted }) => isAccepted) : claimed;
}

/**
 * The service with the earliest claim has the name. If it gives the name a weight, services of its namespace that do the same
 * share it with it. A service of another namespace never does: it could take requests that are not meant for it.
 */
function sharing(claimed: readonly Claim[]): readonly Claim[] {
  const [first] = claimed;
  if (first === undefined) return [];
  if (first.weight === undefined) return [first];
  return claimed.filter(
    ({ service, weight }) => weight !== undefined && service.namespace === first.service.namespace,
  );
}

/** Services with weight 0 get no requests, unless no other service has a higher weight: then the earliest claim gets all of them. */
function weighted(holders: readonly Claim[]): readonly NameShare[] {
  const shares = holders.map(({ service, weight = 1 }) => ({ key: service.key, weight }));
  const positive = shares.filter(({ weight }) => weight > 0);
  return positive.length > 0 ? positive : shares.slice(0, 1).map(({ key }) => ({ key, weight: 1 }));
}

/** By claim, because otherwise an old service could take a name from the one that uses it. */
function byClaim(a: Claim, b: Claim): number {
  return (
    compareText(a.since ?? LAST, b.since ?? LAST) ||
    compareText(a.service.createdAt, b.service.createdAt) ||
    compareText(a.service.key, b.service.key)
  );
}

function shareText(holders: readonly Claim[]): string {
  return holders.map(({ service, weight }) => `${service.key}=${weight}`).join();
}

function addClaim(claims: Map<string, Claim[]>, claim: ClaimedName, service: ServiceNames): void {
  const { name, weight, since, isAccepted } = claim;
  const claimed = claims.get(name) ?? [];
  const added = { service, weight, since, isAccepted };
  claimed.splice(placeOf(claimed, added), 0, added);
  claims.set(name, claimed);
}

function removeClaim(claims: Map<string, Claim[]>, claim: ClaimedName, service: ServiceNames): void {
  const { name } = claim;
  const claimed = claims.get(name) ?? [];
  claimed.splice(placeOf(claimed, { ...claim, service }), 1);
  if (claimed.length === 0) claims.delete(name);
}

/** Index of the first claim that is not earlier, by binary search: thousands of services may have the same name. */
function placeOf(claimed: readonly Claim[], claim: Claim): number {
  let low = 0;
  let high = claimed.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const other = claimed[middle];
    if (other !== undefined && byClaim(other, claim) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
