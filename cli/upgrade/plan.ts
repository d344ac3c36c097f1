/** Which hosts are upgraded, in which order, and which of them at the same time. Pure. */
import { compareReleases, isVersion } from "../../launchd/plan/version.ts";
import { getCondition, isConditionTrue } from "../../src/api/conditions.ts";
import type { ErrorCode } from "../../src/api/errors.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { keyOf } from "../../src/api/names.ts";

/** Hosts at the same time, once the first one has proven the version. */
const BATCH = 2;

export interface TargetRelease {
  readonly version: string;
  /** Platforms with an archive, as releases name them: darwin-arm64. */
  readonly platforms: readonly string[];
}

export interface UpgradeOptions {
  /** Hosts at the same time, the first ones included; absent: the first host alone, then two. */
  readonly batch?: number | undefined;
  readonly allowDowngrade: boolean;
}

/** A replica that was Ready before, and the process that it is to keep. */
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
  /** Only a Host that was Ready before has to be Ready again. */
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

/** `attempted`: hosts that this run has dealt with, whatever they report now. */
export function planUpgrade(
  hosts: readonly Host[],
  replicas: readonly InferenceReplica[],
  wanted: TargetRelease,
  options: UpgradeOptions,
  attempted: readonly string[] = [],
): UpgradePlan {
  const rest = hosts.filter(({ metadata }) => !attempted.includes(metadata.name));
  const leftOut = rest.flatMap((host) => {
    const because = whyLeftOut(host, wanted);
    return because === undefined ? [] : [{ host: host.metadata.name, because, from: versionOf(host) }];
  });
  const due = rest.filter(({ metadata }) => leftOut.every(({ host }) => host !== metadata.name));
  const ready = replicas.filter(isReadyAndReachable);
  const targets = due.map((host) => targetOf(host, ready)).sort(byLoad);
  const isProven = attempted.length > 0 || leftOut.some(({ because }) => because === "current");
  return {
    batches: batchesOf(targets, hostsByService(ready), options.batch, isProven),
    leftOut,
    refusals: refusalsOf(targets, wanted, options),
  };
}

/** Reported Ready by its agent, on a reachable host. */
export function isReadyAndReachable({ status, metadata }: InferenceReplica): boolean {
  const isReachable = getCondition(status?.conditions, "HostReachable")?.status !== "False";
  return status?.phase === "Ready" && isReachable && metadata.deletionTimestamp === undefined;
}

function whyLeftOut(host: Host, { version }: TargetRelease): SkippedHost["because"] | undefined {
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

/** Hosts with the fewest Ready replicas first: a bad version does the least harm there. */
function byLoad(one: UpgradeTarget, other: UpgradeTarget): number {
  const difference = one.replicas.length - other.replicas.length;
  if (difference !== 0) return difference;
  return one.host < other.host ? -1 : 1;
}

/** For each host, the hosts of each service that it serves: every one with a Ready replica. */
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
  let left = [...targets];
  while (left.length > 0) {
    const most = size ?? (isProven || batches.length > 0 ? BATCH : 1);
    const batch: UpgradeTarget[] = [];
    for (const target of left)
      if (batch.length < most && leavesOneServing(target, batch, services)) batch.push(target);
    batches.push(batch);
    left = left.filter((target) => !batch.includes(target));
  }
  return batches;
}

/** No service has all hosts of its Ready replicas in the batch, unless it has a single one. */
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
