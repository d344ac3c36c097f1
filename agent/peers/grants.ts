/** Who may have what of this host's store: what the cluster wants on the host that asks. */
import { createHash } from "node:crypto";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { publicSource } from "../../src/models/source/parse.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { Provenance } from "../store/content/content-sharing.ts";

/** A model that a host is to have. */
export interface AssignedModel {
  readonly source: string;
  readonly sha256?: string | undefined;
}

/** The models of a host's replicas; rejects where the API server does not say. */
export type ReadAssignedModels = (host: string) => Promise<readonly AssignedModel[]>;

/** What the operator, or the controller for Models with spec.prefetch, wants on a host. Only they write these fields. */
export function assignedToHost({ spec, status }: Host): readonly AssignedModel[] {
  const { pinned = [], prefetch = [] } = spec.models ?? {};
  const ordered = (status?.prefetch?.wanted ?? []).map(({ model }) => model);
  return [...pinned.map((source) => ({ source })), ...prefetch, ...ordered];
}

export function neededByReplica({ spec }: InferenceReplica): readonly AssignedModel[] {
  const { model, draft, loraAdapters = [] } = spec.template;
  return [model, ...(draft === undefined ? [] : [draft]), ...loraAdapters.map((adapter) => adapter.model)];
}

/** A file's address as a peer sees it: signed addresses, and those of other namespaces, are not its business. */
export function addressDigest(address: string): string {
  return createHash("sha256").update(address).digest("hex");
}

/**
 * Content that took credentials is given for an address that gave it, to a host that is to have the model; other content
 * also by its checksum.
 */
export function mayFetch(
  wanted: readonly AssignedModel[],
  sha256: string,
  { sources, addresses, isPublic }: Provenance,
  askedFrom: string | undefined,
): boolean {
  const isNamed = wanted.some(({ source }) => sources.includes(publicSource(source)));
  if (isPublic) return isNamed || wanted.some((one) => one.sha256?.toLowerCase() === sha256);
  return isNamed && addresses.some((address) => addressDigest(address) === askedFrom);
}

export interface Grants {
  readonly mayHave: (ask: {
    readonly host: Host;
    readonly sha256: string;
    readonly provenance: Provenance;
    readonly askedFrom: string | undefined;
  }) => Promise<boolean>;
}

/** A host's replicas are read again after this long, and sooner for what they did not name. */
const KEPT_MS = 60_000;
const AGAIN_MS = 2_000;
const MAX_HOSTS = 256;

export function createGrants(readWanted: ReadAssignedModels, clock: Clock): Grants {
  const known = new Map<
    string,
    { readonly atMs: number; readonly wanted: Promise<readonly AssignedModel[]> }
  >();
  const read = (host: string, maxAgeMs: number): Promise<readonly AssignedModel[]> => {
    const nowMs = clock.monotonicMs();
    const before = known.get(host);
    if (before !== undefined && nowMs - before.atMs < maxAgeMs) return before.wanted;
    // The last ones come last: the first is the one that was read longest ago.
    known.delete(host);
    const [oldest] = known.keys();
    if (known.size >= MAX_HOSTS && oldest !== undefined) known.delete(oldest);
    const wanted = readWanted(host).catch(() => []);
    known.set(host, { atMs: nowMs, wanted });
    return wanted;
  };
  return {
    mayHave: async ({ host, sha256, provenance, askedFrom }) => {
      const isGiven = (wanted: readonly AssignedModel[]) => mayFetch(wanted, sha256, provenance, askedFrom);
      if (isGiven(assignedToHost(host))) return true;
      for (const maxAgeMs of [KEPT_MS, AGAIN_MS])
        if (isGiven(await read(host.metadata.name, maxAgeMs))) return true;
      return false;
    },
  };
}
