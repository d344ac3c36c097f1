/** `metalbridge upgrade --hosts …`: plans and upgrades one batch after another, until all hosts are done or one fails. */

import { type ReadArchive, readArchive } from "../../launchd/release/stage.ts";
import { getCondition } from "../../src/api/conditions.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Host } from "../../src/api/host.ts";
import type { HostChange } from "../../src/api/host-change.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { createCommand } from "../../src/util/command.ts";
import { isServing } from "../../src/verdicts/replica.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { findObject, listAll } from "../cluster/find.ts";
import type { ClusterFlags, OutputFormat } from "../cluster/flags.ts";
import { follow } from "../cluster/follow.ts";
import { untilDrained } from "../drain/follow.ts";
import { writeHostChange } from "../drain/patch.ts";
import { toolPath } from "../install/context.ts";
import { formatSpan } from "../program/age.ts";
import { exitCodes } from "../program/exit-codes.ts";
import { printLine, printNote, printResult } from "../program/output.ts";
import { listenForStop, type StopRequest } from "../program/stop-signals.ts";
import { type HostResult, type HostUpgradePorts, upgradeHost } from "./one-host.ts";
import { planUpgrade, type ReplicaBaseline, type UpgradePlan, type UpgradeTarget } from "./plan.ts";
import {
  failureOf,
  failureOfPlan,
  renderLines,
  renderPlan,
  type UpgradeOutcome,
  upgradeLines,
} from "./report.ts";
import { upgradeBySsh } from "./transport.ts";

export interface FleetUpgradeFlags extends ClusterFlags {
  readonly hosts?: readonly string[];
  readonly all?: boolean;
  readonly selector?: string;
  readonly archive: readonly string[];
  readonly sha256?: string;
  readonly batch?: number | undefined;
  readonly drain: boolean;
  readonly timeout: number;
  readonly timeoutSeconds: number;
  readonly allowDowngrade: boolean;
  readonly dryRun: boolean;
  readonly sshProgram: string;
  readonly sshUser?: string;
  readonly sshOption: readonly string[];
  readonly addressFrom: "name" | "status";
  readonly output: OutputFormat;
}

/** Throws UpgradeStopped, UpgradeIncomplete, and errors before the first upgrade. */
export async function upgradeFleet(flags: FleetUpgradeFlags): Promise<void> {
  const archives = await readArchives(flags);
  const version = archives[0]?.version ?? "";
  const platforms = archives.map(({ platform }) => platform);
  await withCluster("upgrade", flags, async (cluster) => {
    const plan = async (attempted: readonly string[] = []): Promise<UpgradePlan> => {
      const [hosts, replicas] = await Promise.all([
        chosenHosts(cluster, flags),
        listAll(cluster, INFERENCE_REPLICAS),
      ]);
      return accepted(planUpgrade(hosts, replicas, { version, platforms }, flags, attempted));
    };
    const first = await plan();
    if (flags.dryRun) {
      printResult(flags.output, { version, ...first }, () => renderPlan(first, version));
      const incomplete = failureOfPlan(first);
      if (incomplete !== undefined) throw incomplete;
      return;
    }
    const stop = listenForStop();
    const ports = portsFor({ cluster, flags, archives, stop });
    const outcome = await upgradeBatches(ports, { first, plan, flags, signal: stop.signal });
    const lines = upgradeLines(first, outcome);
    printResult(flags.output, { version, hosts: lines }, () => renderLines(lines, version));
    if (outcome.problem !== undefined) throw outcome.problem;
    const failure = failureOf(lines, version);
    if (failure === undefined) return;
    const isInterrupted = stop.exitCode() !== exitCodes.ok && lines.every(({ at }) => at !== "failed");
    if (!isInterrupted) throw failure;
    printNote(failure.message);
    process.exitCode = stop.exitCode();
  });
}

function accepted(plan: UpgradePlan): UpgradePlan {
  const [refusal] = plan.refusals;
  if (refusal === undefined) return plan;
  throw new MetalbridgeError(refusal.code, plan.refusals.map(({ message }) => message).join("; "));
}

interface BatchRun {
  readonly first: UpgradePlan;
  /** Plans from the current state, without the hosts that this run has attempted. */
  readonly plan: (attempted: readonly string[]) => Promise<UpgradePlan>;
  readonly flags: Pick<FleetUpgradeFlags, "drain">;
  /** The user's Ctrl-C: no further batch starts. */
  readonly signal: AbortSignal;
}

async function upgradeBatches(
  ports: HostUpgradePorts,
  { first, plan, flags, signal }: BatchRun,
): Promise<UpgradeOutcome> {
  const results = new Map<string, HostResult>();
  let last = first;
  for (;;) {
    const [batch] = last.batches;
    if (batch === undefined || signal.aborted) return { results, last };
    await Promise.all(
      batch.map(async (target) => {
        results.set(target.host, await upgradeHost(ports, target, flags.drain));
      }),
    );
    if ([...results.values()].some(({ at }) => at !== "upgraded")) return { results, last };
    try {
      // Replicas may have moved, which changes the hosts that may be upgraded together.
      last = await plan([...results.keys()]);
    } catch (problem) {
      return { results, last, problem };
    }
  }
}

async function readArchives({ archive, sha256 }: FleetUpgradeFlags): Promise<readonly ReadArchive[]> {
  const run = createCommand(toolPath());
  const archives = [];
  for (const file of archive) archives.push(await readArchive(file, run, sha256));
  const versions = new Set(archives.map(({ version }) => version));
  if (versions.size > 1)
    throw new MetalbridgeError(
      "ReleaseInvalid",
      `the archives have versions ${[...versions].join(" and ")}`,
      { summary: "pass archives of one version" },
    );
  return archives;
}

async function chosenHosts(
  cluster: Cluster,
  { hosts, selector }: FleetUpgradeFlags,
): Promise<readonly Host[]> {
  if (hosts !== undefined)
    return Promise.all([...new Set(hosts)].map((name) => findObject(cluster, HOSTS, name)));
  const found = await listAll(cluster, HOSTS, { labelSelector: selector });
  if (found.length > 0) return found;
  throw new MetalbridgeError("HostNotFound", `no Host matches ${selector ?? "--all"}`);
}

interface UpgradeRun {
  readonly cluster: Cluster;
  readonly flags: FleetUpgradeFlags;
  readonly archives: readonly ReadArchive[];
  readonly stop: StopRequest;
}

function portsFor(run: UpgradeRun): HostUpgradePorts {
  const { cluster, flags, stop } = run;
  const report = flags.output === "json" ? printNote : printLine;
  const before = new Map<string, HostChange>();
  return {
    report,
    drain: async (name) => {
      const found = await findObject(cluster, HOSTS, name);
      const { unschedulable = false, drain = false } = found.spec;
      before.set(name, { unschedulable, drain });
      const { host } = await writeHostChange(cluster, found, { drain: true });
      const print = (line: string) => report(`${name}: ${line.trim()}`);
      return untilDrained(cluster, host, { timeoutMs: flags.timeout, signal: stop.signal, print });
    },
    uncordon: async (name) => {
      await writeHostChange(cluster, await findObject(cluster, HOSTS, name), before.get(name) ?? {});
    },
    upgrade: (target) => upgradeOn(run, target),
    untilHealthy: (target) => untilHealthy(run, target),
  };
}

async function upgradeOn({ cluster, flags, archives, stop }: UpgradeRun, { host, platform }: UpgradeTarget) {
  const archive = archives.find((one) => one.platform === platform);
  if (archive === undefined) throw new MetalbridgeError("UpgradeArchiveMissing", `none for ${platform}`);
  const address =
    flags.addressFrom === "name"
      ? undefined
      : (await findObject(cluster, HOSTS, host)).status?.addresses?.[0];
  const ssh = { program: flags.sshProgram, user: flags.sshUser, options: flags.sshOption };
  const args = ["--timeout-seconds", String(flags.timeoutSeconds)];
  if (flags.allowDowngrade) args.push("--allow-downgrade");
  // The new version and, after a rollback, the previous version may each use the whole time limit to start.
  const timeoutMs = flags.timeout === 0 ? undefined : flags.timeout + 2 * flags.timeoutSeconds * 1_000;
  return upgradeBySsh(ssh, { host, address, archive, args, timeoutMs, signal: stop.again });
}

/** Watches the Host and its replicas. */
async function untilHealthy(
  { cluster, flags, archives, stop }: UpgradeRun,
  target: UpgradeTarget,
): Promise<boolean> {
  const { host } = target;
  const version = archives[0]?.version ?? "";
  let health: HostHealth = { at: "waiting", why: "" };
  const options = { signal: stop.again, timeoutMs: flags.timeout };
  const end = await follow<HostHealth>(cluster, options, ({ watch, finish }) => {
    const inspect = () => {
      health = judgeHost(hosts.get(host), replicas.list(), target, version);
      if (health.at !== "waiting") finish(health);
    };
    const hosts = watch(HOSTS, { fieldSelector: `metadata.name=${host}` }, inspect);
    const onHost = { fieldSelector: `spec.template.hostName=${host}` };
    const replicas = watch(INFERENCE_REPLICAS, onHost, inspect);
  });
  if (end.at === "stopped") return false;
  if (end.at === "finished" && end.value.at === "healthy") return true;
  const elapsed = end.at === "timedOut" ? `after ${formatSpan(flags.timeout)} ` : "";
  throw new MetalbridgeError("HostNotHealthy", `${elapsed}${health.why}`);
}

interface HostHealth {
  readonly at: "healthy" | "waiting" | "failed";
  /** Empty when it is healthy. */
  readonly why: string;
}

const HEALTHY: HostHealth = { at: "healthy", why: "" };

/**
 * Checks whether a host serves as before its upgrade, from the reports of the agent and the controller. `replicas` are the current
 * replicas of the host. A replica that the controller has moved or removed counts as healthy. Pure.
 */
export function judgeHost(
  host: Host | undefined,
  replicas: readonly InferenceReplica[],
  target: UpgradeTarget,
  version: string,
): HostHealth {
  if (host === undefined) return { at: "failed", why: `Host ${target.host} was deleted` };
  const missing = missingOf(host, target, version);
  if (missing !== undefined) return { at: "waiting", why: missing };
  const judged = target.replicas.map((baseline) =>
    judgeReplica(
      replicas.find(({ metadata }) => metadata.uid === baseline.uid),
      baseline,
    ),
  );
  return judged.find(({ at }) => at === "failed") ?? judged.find(({ at }) => at === "waiting") ?? HEALTHY;
}

function missingOf({ status }: Host, { wasReady }: UpgradeTarget, version: string): string | undefined {
  const reported = status?.info?.agentVersion ?? "unknown";
  if (reported !== version) return `its agent reports version ${reported}`;
  const needed = wasReady ? ["Reachable", "Ready"] : ["Reachable"];
  for (const type of needed) {
    const condition = getCondition(status?.conditions, type);
    if (condition === undefined) return `it has no condition ${type}`;
    if (condition.status !== "True")
      return `its condition ${type} is ${condition.status} (${condition.reason}: ${condition.message})`;
  }
  return undefined;
}

function judgeReplica(replica: InferenceReplica | undefined, baseline: ReplicaBaseline): HostHealth {
  if (replica === undefined || replica.metadata.deletionTimestamp !== undefined) return HEALTHY;
  const { pid, startedAt, phase = "Pending" } = replica.status ?? {};
  // An engine that the new agent has adopted keeps its pid and its start time.
  if (isOther(baseline.pid, pid) || isOther(baseline.startedAt, startedAt)) {
    const why = `the engine of ${baseline.key} was restarted: pid ${baseline.pid ?? "unknown"}, now ${pid ?? "unknown"}`;
    return { at: "failed", why };
  }
  return isServing(replica) ? HEALTHY : { at: "waiting", why: `${baseline.key} is ${phase}` };
}

function isOther<T>(before: T | undefined, now: T | undefined): boolean {
  return before !== undefined && now !== undefined && before !== now;
}
