/** Decides which contents of this host's store another host may download: those that the cluster assigns to that host. */
import type { Host } from "../../src/api/host.ts";
import { type InferenceReplica, weightsOfTemplate } from "../../src/api/inference-replica.ts";
import { publicSource } from "../../src/models/source/parse.ts";
import { setBounded } from "../../src/util/bounded-map.ts";
import { sha256Hex } from "../../src/util/hash.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { Provenance } from "../store/content/content-sharing.ts";

/** A model that the cluster assigns to a host. */
export interface AssignedModel {
  readonly source: string;
  readonly sha256?: string | undefined;
}

/** Reads the models of a host's replicas; rejects if the API server does not answer. */
export type ReadAssignedModels = (host: string) => Promise<readonly AssignedModel[]>;

/** The models that the operator, or the controller for a prefetch or a benchmark, assigns to a host. Only they write these fields. */
export function assignedToHost({ spec, status }: Host): readonly AssignedModel[] {
  const { pinned = [], prefetch = [] } = spec.models ?? {};
  const ordered = (status?.prefetch?.wanted ?? []).map(({ model }) => model);
  const measured = status?.benchmark?.order;
  return [
    ...pinned.map((source) => ({ source })),
    ...prefetch,
    ...ordered,
    ...(measured === undefined ? [] : [measured.model]),
  ];
}

export function neededByReplica({ spec }: InferenceReplica): readonly AssignedModel[] {
  return weightsOfTemplate(spec.template);
}

/** A file's address as peers see it: signed addresses, and those of other namespaces, stay secret. */
export function addressDigest(address: string): string {
  return sha256Hex(address);
}

/**
 * Content that required credentials is served only for an address that served it, and only to a host that the model is
 * assigned to. Other content is also served by its checksum.
 */
export function mayFetch(
  assigned: readonly AssignedModel[],
  sha256: string,
  { sources, addresses, isPublic }: Provenance,
  requestedDigest: string | undefined,
): boolean {
  const isNamed = assigned.some(({ source }) => sources.includes(publicSource(source)));
  if (isPublic) return isNamed || assigned.some((one) => one.sha256?.toLowerCase() === sha256);
  return isNamed && addresses.some((address) => addressDigest(address) === requestedDigest);
}

export interface Grants {
  readonly allows: (request: {
    readonly host: Host;
    readonly sha256: string;
    readonly provenance: Provenance;
    /** `addressDigest` of the file at the requesting host's origin. */
    readonly requestedDigest: string | undefined;
  }) => Promise<boolean>;
}

/** A host's replicas are read again after this time. */
const MAX_AGE_MS = 60_000;
/** They are read again sooner for a model that they did not name. */
const RETRY_MS = 2_000;
const MAX_HOSTS = 256;

export function createGrants(readAssigned: ReadAssignedModels, clock: Clock): Grants {
  const cache = new Map<string, { readonly atMs: number; readonly models: ReturnType<ReadAssignedModels> }>();
  const read: (host: string, maxAgeMs: number) => ReturnType<ReadAssignedModels> = (host, maxAgeMs) => {
    const nowMs = clock.monotonicMs();
    const cached = cache.get(host);
    if (cached !== undefined && nowMs - cached.atMs < maxAgeMs) return cached.models;
    const models = readAssigned(host).catch(() => []);
    setBounded(cache, host, { atMs: nowMs, models }, MAX_HOSTS);
    return models;
  };
  return {
    allows: async ({ host, sha256, provenance, requestedDigest }) => {
      const isAllowed = (assigned: readonly AssignedModel[]) =>
        mayFetch(assigned, sha256, provenance, requestedDigest);
      if (isAllowed(assignedToHost(host))) return true;
      for (const maxAgeMs of [MAX_AGE_MS, RETRY_MS])
        if (isAllowed(await read(host.metadata.name, maxAgeMs))) return true;
      return false;
    },
  };
}
