/** What one scrape found, and the labels that go with it. */
import { keyOf } from "../../../src/api/names.ts";
import type { Labels } from "../../../src/http/metrics/family.ts";
import type { ProcessFacts } from "../../../src/http/metrics/process.ts";
import type { RouteReading } from "../../gate/gate-routes.ts";
import type { ReplicaSnapshot } from "../../replicas/ports.ts";
import type { EngineReading } from "../../replicas/state/counts.ts";
import type { MetricsFacts } from "../facts.ts";

export interface Scrape extends MetricsFacts {
  readonly engines: readonly EngineReading[];
  readonly gate: readonly RouteReading[];
  readonly process: ProcessFacts;
}

export const HOST_LABELS = ["host"] as const;
export const REPLICA_LABELS = ["host", "namespace", "service", "replica"] as const;

export function hostLabels({ hostName }: MetricsFacts): Labels {
  return { host: hostName };
}

/** Replicas known only from a folder on disk have no name yet, and would share one series. */
export function* namedReplicas(scrape: Scrape): Iterable<readonly [ReplicaSnapshot, Labels]> {
  const seen = new Set<string>();
  for (const replica of scrape.replicas) {
    const { namespace, service, name } = replica;
    const key = keyOf({ namespace, name });
    // The engine of a deleted object may still end while a new object of the same name begins.
    if (name === "" || seen.has(key)) continue;
    seen.add(key);
    yield [replica, { host: scrape.hostName, namespace, service, replica: name }];
  }
}
