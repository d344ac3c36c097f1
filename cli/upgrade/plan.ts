/** Plans which hosts are upgraded, in which order, and which at the same time. Pure. */
import { compareReleases, isVersion } from "../../launchd/plan/version.ts";
import { isConditionTrue } from "../../src/api/conditions.ts";
import type { ErrorCode } from "../../src/api/errors.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { keyOf } from "../../src/api/names.ts";
import { compareText } from "../../src/util/text.ts";
import { isServing } from "../../src/verdicts/replica.ts";

/** Number of concurrent hosts, once the first host has proven the version. */
const BATCH = 2;

export interface TargetRelease {
  readonly version: string;
  /** Platforms with an archive, as releases name them: darwin-arm64. */
  readonly platforms: readonly string[];
}

export interface UpgradeOptions {
  /** Number of concurrent hosts. Absent: the first host alone, then two at a time. */
  readonly batch?: number | undefined;
  readonly allowDowngrade: boolean;
}

/** A replica that was Ready before the upgrade, and the process that must survive it. */
export interface ReplicaBaseline {
  readonly key: string;
  readonly uid: string;
  readonly pid?: number | undefined;
  readonly startedAt?: string | undefined;
}

export interface UpgradeTarget {
  readonly host: string;
  readonly from: string;
  readonly platform: string;
  /** Only a Host that was Ready before must be Ready again. */
  readonly wasReady: boolean;
  readonly replicas: readonly ReplicaBaseline[];
}

export interface SkippedHost {
  readonly host: string;
  readonly because: "current" | "unreachable";
  readonly from: string;
}

export interface UpgradePlan {
  readonly batches: readonly (readonly UpgradeTarget[])[];
  readonly leftOut: readonly SkippedHost[];
  /** The upgrade does not start if there are any. */
  readonly refusals: readonly { readonly code: ErrorCode; readonly message: string }[];
}

/** `attempted` are the hosts that this run has already upgraded or tried to upgrade. */
export function planUpgrade(
  hosts: readonly Host[],
  replicas: readonly InferenceReplica[],
  release: TargetRelease,
  options: UpgradeOptions,
  attempted: readonly string[] = [],
): UpgradePlan {
  const remaining = hosts.filter(({ metadata }) => !attempted.includes(metadata.name));
  const leftOut = remaining.flatMap((host) => {
    const because = skipReason(host, release);
    return because === undefined ? [] : [{ host: host.metadata.name, because, from: versionOf(host) }];
  });
  const ready = replicas.filter(isServing);
  const targets = remaining
    .filter(({ metadata }) => leftOut.every(({ host }) => host !== metadata.name))
    .map((host) => targetOf(host, ready))
    .sort((a, b) => a.replicas.length - b.replicas.length || compareText(a.host, b.host));
  const isProven = attempted.length > 0 || leftOut.some(({ because }) => because === "current");
  return {
    // A bad version does the least harm on the host with the fewest Ready replicas, which comes first.
    batches: batchesOf(targets, hostsByService(ready), options.batch, isProven),
    leftOut,
    refusals: refusalsOf(targets, release, options),
  };
}

function skipReason(host: Host, { version }: TargetRelease): SkippedHost["because"] | undefined {
  if (!isConditionTrue(host.status?.conditions, "Reachable")) return "unreachable";
  return versionOf(host) === version ? "current" : undefined;
}

function versionOf({ status }: Host): string {
  return status?.info?.agentVersion ?? "";
}

function targetOf(host: Host, ready: readonly InferenceReplica[]): UpgradeTarget {
  const { name } = host.metadata;
  const { os = "", arch = "" } = host.status?.info ?? {};
  return {
    host: name,
    from: versionOf(host),
    platform: `${os}-${arch}`,
    wasReady: isConditionTrue(host.status?.conditions, "Ready"),
    replicas: ready
      .filter(({ spec }) => spec.template.hostName === name)
      .map(({ metadata, status }) => ({
        key: keyOf(metadata),
        uid: metadata.uid ?? "",
        pid: status?.pid,
        startedAt: status?.startedAt,
      })),
  };
}

/** By host: for each service with a Ready replica on the host, all hosts with a Ready replica of the service. */
function hostsByService(
  ready: readonly InferenceReplica[],
): ReadonlyMap<string, readonly ReadonlySet<string>[]> {
  const byService = new Map<string, Set<string>>();
  for (const { spec } of ready) {
    const { serviceUid, hostName } = spec.template;
    byService.set(serviceUid, (byService.get(serviceUid) ?? new Set()).add(hostName));
  }
  const byHost = new Map<string, ReadonlySet<string>[]>();
  for (const hosts of byService.values())
    for (const host of hosts) byHost.set(host, [...(byHost.get(host) ?? []), hosts]);
  return byHost;
}

function batchesOf(
  targets: readonly UpgradeTarget[],
  services: ReadonlyMap<string, readonly ReadonlySet<string>[]>,
  size: number | undefined,
  isProven: boolean,
): readonly (readonly UpgradeTarget[])[] {
  const batches: UpgradeTarget[][] = [];
  let remaining = [...targets];
  while (remaining.length > 0) {
    const most = size ?? (isProven || batches.length > 0 ? BATCH : 1);
    const batch: UpgradeTarget[] = [];
    for (const target of remaining)
      if (batch.length < most && leavesOneServing(target, batch, services)) batch.push(target);
    batches.push(batch);
    remaining = remaining.filter((target) => !batch.includes(target));
  }
  return batches;
}

/** True if no service has all hosts of its Ready replicas in the batch, except a service with a single host. */
function leavesOneServing(
  { host }: UpgradeTarget,
  batch: readonly UpgradeTarget[],
  services: ReadonlyMap<string, readonly ReadonlySet<string>[]>,
): boolean {
  const names = new Set([host, ...batch.map((other) => other.host)]);
  return (services.get(host) ?? []).every(
    (serving) => serving.size === 1 || [...serving].some((name) => !names.has(name)),
  );
}

function refusalsOf(
  targets: readonly UpgradeTarget[],
  { version, platforms }: TargetRelease,
  { allowDowngrade }: UpgradeOptions,
): UpgradePlan["refusals"] {
  const refusals: { code: ErrorCode; message: string }[] = [];
  const missing = new Map<string, string[]>();
  for (const { host, platform } of targets)
    if (!platforms.includes(platform)) missing.set(platform, [...(missing.get(platform) ?? []), host]);
  for (const [platform, names] of missing) {
    const message = `there is no archive for ${platform}: ${names.join(", ")}`;
    refusals.push({ code: "UpgradeArchiveMissing", message });
  }
  const newer = targets.filter(({ from }) => isVersion(from) && compareReleases(version, from) < 0);
  if (newer.length > 0 && !allowDowngrade) {
    const names = newer.map(({ host, from }) => `${host} (${from})`).join(", ");
    refusals.push({ code: "DowngradeRefused", message: `version ${version} is older than that of ${names}` });
  }
  return refusals;
}
