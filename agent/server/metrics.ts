/** The agent's own metrics, read from its state when somebody asks. */
import type { ReplicaSnapshot } from "../replicas/ports.ts";

export interface MetricsFacts {
  readonly hostName: string;
  readonly version: string;
  readonly replicas: readonly ReplicaSnapshot[];
  readonly claimedBytes: number;
  readonly budgetBytes: number | undefined;
  readonly isNameOurs: boolean;
  readonly isSynced: boolean;
  /** Since the replica watch last gave a sign of life. */
  readonly watchAgeMs: number | undefined;
}

export interface Metrics {
  readonly contentType: string;
  readonly text: () => Promise<string>;
}

/** Loads prom-client on first use: an agent that nobody scrapes does not pay for it. */
export async function createMetrics(facts: () => MetricsFacts): Promise<Metrics> {
  const { Gauge, Registry, collectDefaultMetrics } = await import("prom-client");
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: "metalbridge_agent_" });
  const gauge = (name: string, help: string, labelNames: string[] = []) =>
    new Gauge({ name: `metalbridge_${name}`, help, labelNames, registers: [registry] });
  const info = gauge("agent_info", "The agent; always 1.", ["host", "version"]);
  const leased = gauge("agent_host_name_held", "1 while this agent holds the Lease of its host name.");
  const synced = gauge(
    "agent_replicas_synced",
    "1 while the local copy of this host's replicas is complete.",
  );
  const age = gauge("agent_watch_age_seconds", "Seconds since the replica watch last gave a sign of life.");
  const claimed = gauge("host_claimed_bytes", "Memory claimed by all replicas of this host.");
  const budget = gauge("host_budget_bytes", "Memory that replicas of this host may claim together.");
  const phases = gauge("replicas", "Replicas of this host by phase.", ["phase"]);
  const restarts = gauge("replica_restarts", "How often the engine ended unasked.", [
    "namespace",
    "service",
    "replica",
  ]);
  return {
    contentType: registry.contentType,
    text: () => {
      const now = facts();
      // Series of what is gone must go with it.
      for (const each of [info, age, budget, phases, restarts]) each.reset();
      info.set({ host: now.hostName, version: now.version }, 1);
      leased.set(now.isNameOurs ? 1 : 0);
      synced.set(now.isSynced ? 1 : 0);
      if (now.watchAgeMs !== undefined) age.set(now.watchAgeMs / 1000);
      claimed.set(now.claimedBytes);
      if (now.budgetBytes !== undefined) budget.set(now.budgetBytes);
      for (const replica of now.replicas) {
        phases.inc({ phase: replica.phase });
        restarts.set(
          { namespace: replica.namespace, service: replica.service, replica: replica.name },
          replica.restarts,
        );
      }
      return registry.metrics();
    },
  };
}
