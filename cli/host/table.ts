/** The hosts as a table. Pure. */
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { osText } from "../../src/verdicts/host.ts";
import { ageOf } from "../program/age.ts";
import { formatTable } from "../program/table.ts";
import { claimedOf, overviewOf } from "../status/overview.ts";

export type HostEntry = ReturnType<typeof hostEntries>[number];

/** Sorted by name. */
export function hostEntries(hosts: readonly Host[], replicas: readonly InferenceReplica[]) {
  const byName = new Map(hosts.map((host) => [host.metadata.name, host]));
  const { hosts: lines, replicas: all } = overviewOf(hosts, [], replicas);
  return lines.map((line) => {
    const host = byName.get(line.name);
    const own = all.filter((replica) => replica.host === line.name);
    const { info, addresses = [] } = host?.status ?? {};
    return {
      ...line,
      replicas: own.length,
      readyReplicas: own.filter((replica) => replica.isServing).length,
      addresses: addresses.length > 0 ? addresses : (host?.spec?.addresses ?? []),
      os: host === undefined ? "" : osText(host),
      agentVersion: info?.agentVersion ?? "",
      createdAt: host?.metadata.creationTimestamp,
    };
  });
}

/** One line per host. */
export function renderHostTable(entries: readonly HostEntry[], nowMs: number): string {
  if (entries.length === 0) return "no hosts: see docs/add-a-host.md";
  const titles = ["HOST", "STATE", "READY", "MEMORY", "MACHINE", "ADDRESS", "OS", "AGENT", "AGE"];
  return formatTable(
    titles,
    entries.map((entry) => rowOf(entry, nowMs)),
  );
}

function rowOf(entry: HostEntry, nowMs: number): readonly string[] {
  const { name, state, readyReplicas, replicas, machine, addresses, os, agentVersion, createdAt } = entry;
  return [
    ...[name, state, `${readyReplicas}/${replicas}`, claimedOf(entry), machine],
    ...[addresses.join(","), os, agentVersion, ageOf(createdAt, nowMs) ?? ""],
  ];
}
