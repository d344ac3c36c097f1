/**
 * A cluster and its endpoints reach Envoy by separate ways, in any order. A sealed endpoint must not reach a cluster that cannot
 * verify it: without certificates, that cluster would send requests in plain text. So the name under which a cluster asks for its
 * endpoints depends on its certificates, and a cluster that Envoy has not replaced yet gets the endpoints that it can verify.
 */
import { hash } from "../../../src/util/hash.ts";
import type { EnvoyCluster, EnvoyEndpoint } from "../types.ts";
import { encodeLoadAssignment } from "./discovery.ts";

/** The endpoints of one edition of a cluster. */
export interface Assignment {
  readonly name: string;
  readonly cluster: string;
  readonly bytes: Buffer;
  /** Addresses of healthy endpoints, in Envoy's notation. */
  readonly addresses: readonly string[];
}

interface Edition {
  readonly cluster: string;
  readonly fingerprints: ReadonlySet<string>;
  /** Newer editions have a higher one. */
  readonly number: number;
}

export function assignmentName({ name, fingerprints = [] }: EnvoyCluster): string {
  return fingerprints.length === 0 ? name : `${name}#${hash(fingerprints.join())}`;
}

export class Editions {
  readonly #editions = new Map<string, Edition>();
  readonly #currentOf = new Map<string, string>();
  readonly #assignments = new WeakMap<EnvoyCluster, Assignment>();
  #last = 0;

  /** Assignments by name: those of the current editions, and of earlier ones that Envoy still asks for. */
  update(
    clusters: readonly EnvoyCluster[],
    isRequested: (name: string) => boolean,
  ): ReadonlyMap<string, Assignment> {
    const assignments = new Map<string, Assignment>();
    for (const cluster of clusters) {
      const assignment = this.#assignments.get(cluster) ?? assign(assignmentName(cluster), cluster);
      this.#assignments.set(cluster, assignment);
      assignments.set(assignment.name, assignment);
      this.#noteCurrent(assignment.name, cluster);
    }
    const byName = new Map(clusters.map((cluster) => [cluster.name, cluster]));
    for (const name of this.#currentOf.keys()) if (!byName.has(name)) this.#currentOf.delete(name);
    for (const [name, { cluster, fingerprints }] of this.#editions) {
      if (assignments.has(name)) continue;
      const current = byName.get(cluster);
      if (current === undefined || !isRequested(name)) this.#editions.delete(name);
      else assignments.set(name, assign(name, current, fingerprints));
    }
    return assignments;
  }

  /** Undefined for an edition that Envoy no longer asks for. */
  numberOf(name: string): number | undefined {
    return this.#editions.get(name)?.number;
  }

  #noteCurrent(name: string, cluster: EnvoyCluster): void {
    if (this.#currentOf.get(cluster.name) === name) return;
    this.#currentOf.set(cluster.name, name);
    this.#last += 1;
    const fingerprints = new Set(cluster.fingerprints);
    this.#editions.set(name, { cluster: cluster.name, fingerprints, number: this.#last });
  }
}

/** With `verifiable`, only endpoints that have no certificate or one of these. A host may still present any of its own. */
function assign(name: string, cluster: EnvoyCluster, verifiable?: ReadonlySet<string>): Assignment {
  const endpoints = cluster.endpoints.filter(
    ({ fingerprints }) =>
      verifiable === undefined ||
      fingerprints === undefined ||
      fingerprints.some((one) => verifiable.has(one)),
  );
  return {
    name,
    cluster: cluster.name,
    bytes: encodeLoadAssignment({ name, endpoints }),
    addresses: endpoints.filter(({ isHealthy }) => isHealthy).map(addressOf),
  };
}

function addressOf({ address, port }: EnvoyEndpoint): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}
