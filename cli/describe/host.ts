/** The description of a host: state, memory, engines, replicas, conditions and events. Pure. */
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { keyOf } from "../../src/api/names.ts";
import { hostBudget } from "../../src/capacity/placement/budget.ts";
import type { KubeEvent, Lease } from "../../src/kube/objects.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { hostText, osText } from "../../src/verdicts/host.ts";
import { agoOf } from "../program/age.ts";
import { overviewOf } from "../status/overview.ts";
import { conditionSection, eventSection } from "./parts.ts";
import { type Field, fieldLines, renderSections, type Section, tableLines } from "./sections.ts";

export interface HostDetails {
  readonly host: Host;
  /** Undefined if it does not exist, or if the credential may not read it. */
  readonly lease: Lease | undefined;
  /** Replicas of all namespaces. */
  readonly replicas: readonly InferenceReplica[] | "forbidden";
  readonly events: readonly KubeEvent[] | "forbidden";
}

export function renderHost(facts: HostDetails, nowMs: number): string {
  const { host, replicas, events } = facts;
  return renderSections(fieldLines(headOf(facts, nowMs)), [
    memorySection(host),
    diskSection(host),
    engineSection(host),
    replicaSection(replicas),
    conditionSection(host.status?.conditions, undefined, nowMs),
    eventSection(events, nowMs),
  ]);
}

function headOf({ host, lease }: HostDetails, nowMs: number): readonly Field[] {
  const { metadata, spec, status } = host;
  const { info, addresses = [] } = status ?? {};
  return [
    ["Name", metadata.name],
    ["State", hostText(host)],
    ["Lease", leaseOf(lease, nowMs)],
    ["Serves on", addresses.join(", ")],
    ["May serve on", spec.addresses.join(", ")],
    ["Machine", machineOf(info)],
    ["OS", [osText(host), info?.arch ?? ""].join(" ").trim()],
    ["Agent", info?.agentVersion],
    ["Booted", agoOf(info?.bootTime, nowMs)],
    ["Labels", labelsOf(metadata.labels)],
    ["Created", agoOf(metadata.creationTimestamp, nowMs)],
  ];
}

/** An agent that stops releases its Lease. `host add` creates one without a holder. */
function leaseOf(lease: Lease | undefined, nowMs: number): string {
  if (lease === undefined) return "not found, or not readable";
  const { holderIdentity = "", renewTime } = lease.spec ?? {};
  if (renewTime === undefined) return "never renewed";
  return `${holderIdentity === "" ? "released" : "renewed"} ${agoOf(renewTime, nowMs) ?? renewTime}`;
}

function machineOf(info: NonNullable<Host["status"]>["info"]): string {
  const { chip, hardwareModel, performanceCores, efficiencyCores, gpuCores } = info ?? {};
  const cores = [
    performanceCores === undefined ? undefined : `${performanceCores} performance`,
    efficiencyCores === undefined ? undefined : `${efficiencyCores} efficiency`,
    gpuCores === undefined ? undefined : `${gpuCores} GPU`,
  ].filter((word) => word !== undefined);
  const coreText = cores.length === 0 ? undefined : `${cores.join(", ")} cores`;
  return [chip, hardwareModel, coreText].filter((word) => word !== undefined).join("; ");
}

function memorySection(host: Host): Section {
  const { memory } = host.status ?? {};
  return {
    title: "Memory",
    lines: fieldLines([
      ["installed", bytesOf(memory?.totalBytes)],
      ["budget for engines", budgetOf(host)],
      ["claimed", bytesOf(memory?.claimedBytes)],
      ["left for claims", bytesOf(memory?.leftBytes)],
      ["available now", bytesOf(memory?.availableBytes)],
      ["pressure", memory?.pressure],
    ]),
  };
}

function budgetOf(host: Host): string {
  const budget = hostBudget(host);
  if (!budget.known) return `unknown: ${budget.why}`;
  const { systemReserve } = host.spec.memory;
  const less = systemReserve === undefined ? "" : `, minus the system reserve of ${systemReserve}`;
  return `${formatBytes(budget.bytes)} (${budget.basis}${less})`;
}

function diskSection({ status }: Host): Section {
  const { totalBytes, freeBytes, usedBytes } = status?.disk ?? {};
  const of = totalBytes === undefined ? "" : ` of ${formatBytes(totalBytes)}`;
  return {
    title: "Disk",
    lines: fieldLines([
      ["stored models", bytesOf(usedBytes)],
      ["free", freeBytes === undefined ? undefined : `${formatBytes(freeBytes)}${of}`],
    ]),
  };
}

function engineSection({ status }: Host): Section {
  const rows = (status?.runtimes ?? []).map(({ name, version = "", path = "" }) => [name, version, path]);
  return { title: "Engines", lines: tableLines(["RUNTIME", "VERSION", "PATH"], rows) };
}

function replicaSection(replicas: HostDetails["replicas"]): Section {
  const title = "Replicas";
  if (replicas === "forbidden") return { title, lines: ["this credential may not list replicas"] };
  const rows = overviewOf([], [], replicas).replicas.map((replica) => [
    keyOf(replica),
    replica.state,
    formatBytes(replica.claimBytes),
    String(replica.port ?? ""),
    String(replica.restarts),
    replica.message,
  ]);
  const titles = ["REPLICA", "PHASE", "CLAIM", "PORT", "RESTARTS", "MESSAGE"];
  return { title, lines: rows.length === 0 ? ["none"] : tableLines(titles, rows) };
}

function labelsOf(labels: Readonly<Record<string, string>> = {}): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");
}

function bytesOf(bytes: number | undefined): string | undefined {
  return bytes === undefined ? undefined : formatBytes(bytes);
}
