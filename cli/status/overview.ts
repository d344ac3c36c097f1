/** Hosts, services and replicas as data for `status`, `top`, `host list` and `describe`. Pure. */

import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { readyText, unreadyMessage } from "../../src/api/inference-service/serving.ts";
import { hostBudget } from "../../src/capacity/placement/budget.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { compareText } from "../../src/util/text.ts";
import { hostText } from "../../src/verdicts/host.ts";
import { isHostReachable, isServing, phaseText, stateOfReplica } from "../../src/verdicts/replica.ts";

export type OverviewHostLine = ReturnType<typeof hostLine>;
export type ServiceLine = ReturnType<typeof serviceLine>;
export type ReplicaLine = ReturnType<typeof replicaLine>;

export interface Overview {
  /** A note if no controller leads; all other data is then out of date. */
  readonly controller?: string | undefined;
  /** What the reader may not see, and why. */
  readonly missing?: readonly string[];
  /** Undefined if the reader may not list hosts. */
  readonly hosts?: readonly OverviewHostLine[] | undefined;
  readonly services: readonly ServiceLine[];
  readonly replicas: readonly ReplicaLine[];
}

export function overviewOf(
  hosts: readonly Host[],
  services: readonly InferenceService[],
  replicas: readonly InferenceReplica[],
): Overview & { readonly hosts: readonly OverviewHostLine[] } {
  return {
    hosts: hosts.map(hostLine).sort((a, b) => compareText(a.name, b.name)),
    services: services.map(serviceLine).sort(byNamespaceAndName),
    replicas: replicas.map(replicaLine).sort(byNamespaceAndName),
  };
}

function hostLine(host: Host) {
  const { metadata, status } = host;
  return {
    name: metadata.name,
    /** "Ready", or "Unreachable (LeaseExpired), cordoned". */
    state: hostText(host),
    machine: status?.info?.chip ?? status?.info?.arch ?? "",
    claimedBytes: status?.memory?.claimedBytes ?? 0,
    budgetBytes: budgetOf(host),
    runtimes: (status?.runtimes ?? []).map(({ name, version }) =>
      version === undefined ? name : `${name} ${version}`,
    ),
  };
}

/** The memory budget that placement uses. Undefined if the host has not reported enough. */
function budgetOf(host: Parameters<typeof hostBudget>[0]): number | undefined {
  const budget = hostBudget(host);
  return budget.known ? budget.bytes : undefined;
}

function serviceLine(service: InferenceService) {
  const { metadata, spec, status } = service;
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    phase: status?.phase ?? "Pending",
    ready: readyText(service),
    on: status?.on ?? "",
    model: mainModelOf(spec),
    endpoint: status?.endpoint ?? "",
    /** Empty if it is Ready. */
    message: unreadyMessage(status),
  };
}

function replicaLine(replica: InferenceReplica) {
  const { metadata, spec, status } = replica;
  const phase = status?.phase ?? "Pending";
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    host: spec.template.hostName,
    phase,
    /** The phase, with "host unreachable" where it may be out of date. */
    state: phaseText(replica),
    isReachable: isHostReachable(replica),
    isServing: isServing(replica),
    claimBytes: spec.memory.claimBytes,
    port: status?.port,
    restarts: status?.restarts ?? 0,
    message: stateOfReplica(replica).message,
    /** Present while the weights are downloaded. */
    download: phase === "Fetching" ? status?.progress : undefined,
  };
}

function byNamespaceAndName(
  a: { namespace: string; name: string },
  b: { namespace: string; name: string },
): number {
  return compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}

/** "12.0 GiB of 48.0 GiB": claimed memory, and the budget if it is known. */
export function claimedOf({ claimedBytes, budgetBytes }: OverviewHostLine): string {
  const claimed = formatBytes(claimedBytes);
  return budgetBytes === undefined ? claimed : `${claimed} of ${formatBytes(budgetBytes)}`;
}
