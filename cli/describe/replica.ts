/** The description of a replica. Pure. */
import type { EngineSettings } from "../../src/api/engine-settings.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica, LastExit, ReplicaModel } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { revisionContentOf, shortRevision } from "../../src/capacity/template.ts";
import type { KubeEvent } from "../../src/kube/objects.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { hostInUrl } from "../../src/util/host-in-url.ts";
import { downloadText } from "../../src/verdicts/download.ts";
import { hostText } from "../../src/verdicts/host.ts";
import { exitText, isHostReachable, phaseSince } from "../../src/verdicts/replica.ts";
import { ageOf, agoOf } from "../program/age.ts";
import { claimParts } from "../program/claim-parts.ts";
import { printable } from "../program/table.ts";
import { conditionSection, eventSection, performanceText } from "./parts.ts";
import { type Field, fieldLines, renderSections, type Section, tableLines } from "./sections.ts";

export interface ReplicaFacts {
  readonly replica: InferenceReplica;
  /** Undefined if it does not exist, or if the credential may not read it. */
  readonly service: InferenceService | undefined;
  readonly host: Host | undefined;
  readonly events: readonly KubeEvent[] | "forbidden";
}

export function renderReplica(facts: ReplicaFacts, nowMs: number): string {
  const { replica, events } = facts;
  return renderSections(fieldLines(headOf(facts, nowMs)), [
    engineSection(replica),
    memorySection(replica),
    transitionSection(replica, nowMs),
    exitSection(replica.status?.lastExit, nowMs),
    conditionSection(replica.status?.conditions, replica.status?.message, nowMs),
    eventSection(events, nowMs),
  ]);
}

function headOf(facts: ReplicaFacts, nowMs: number): readonly Field[] {
  const { replica, host } = facts;
  const { metadata, spec, status } = replica;
  const { hostName } = spec.template;
  return [
    ["Name", metadata.name],
    ["Namespace", metadata.namespace],
    ["Service", serviceOf(facts)],
    ["Host", `${hostName} (${host === undefined ? "not found, or not readable" : hostText(host)})`],
    ["Phase", phaseOf(replica, nowMs)],
    ["Message", status?.message],
    ["Leaving", leavingOf(replica, nowMs)],
    ["Download", status?.progress && downloadText(status.progress)],
    ["Listens on", listensOn(host, status?.port)],
    ["Process", processOf(replica, nowMs)],
    ["Performance", performanceText(status?.performance)],
    ["Restarts", status?.restarts === undefined ? undefined : String(status.restarts)],
    ["Created", agoOf(metadata.creationTimestamp, nowMs)],
  ];
}

function serviceOf({ replica, service }: ReplicaFacts): string {
  const { serviceName, revision } = replica.spec.template;
  const newest = service?.status?.updateRevision;
  if (service === undefined) return `${serviceName} (not found, or not readable), revision ${revision}`;
  const age = newest === undefined ? "" : newest === revision ? ", the newest" : `; the newest is ${newest}`;
  return `${serviceName}, revision ${revision}${age}`;
}

/** Includes the reachability of the host, because a dead agent cannot update its own Ready condition. */
function phaseOf(replica: InferenceReplica, nowMs: number): string {
  const { status } = replica;
  const { phase = "Pending", reason } = status ?? {};
  const since = ageOf(phaseSince(replica), nowMs);
  const retry = status?.nextTryAt && `next attempt at ${status.nextTryAt}`;
  const words = [`${phase}${since === undefined ? "" : ` for ${since}`}`, reason, retry];
  return [...words, isHostReachable(replica) ? undefined : "but its host is unreachable"]
    .filter((word) => word !== undefined)
    .join(", ");
}

function leavingOf({ metadata, spec }: InferenceReplica, nowMs: number): string | undefined {
  const deleted = agoOf(metadata.deletionTimestamp, nowMs);
  const drain = spec.drain;
  if (drain === undefined) return deleted === undefined ? undefined : `deleted ${deleted}`;
  const until = drain.deadline === undefined ? "" : `, until ${drain.deadline} at the latest`;
  return `draining: ${drain.reason}${until}${deleted === undefined ? "" : `; deleted ${deleted}`}`;
}

function listensOn(host: Host | undefined, port: number | undefined): string | undefined {
  if (port === undefined) return undefined;
  const address = host?.status?.addresses?.[0];
  if (address === undefined) return `port ${port}`;
  return `${hostInUrl(address)}:${port}`;
}

function processOf({ status }: InferenceReplica, nowMs: number): string | undefined {
  if (status?.pid === undefined) return undefined;
  const [started, ready] = [agoOf(status.startedAt, nowMs), agoOf(status.readyAt, nowMs)];
  return [
    `pid ${status.pid}`,
    started === undefined ? undefined : `started ${started}`,
    ready === undefined ? undefined : `ready ${ready}`,
  ]
    .filter((word) => word !== undefined)
    .join(", ");
}

function transitionSection({ status }: InferenceReplica, nowMs: number): Section {
  const rows = (status?.transitions ?? []).map(({ at, phase, reason, message }) => [
    agoOf(at, nowMs) ?? "",
    phase,
    reason,
    message ?? "",
  ]);
  return { title: "Last transitions", lines: tableLines(["WHEN", "PHASE", "REASON", "WHY"], rows) };
}

function exitSection(exit: LastExit | undefined, nowMs: number): Section {
  const title = "Last exit";
  if (exit === undefined) return { title, lines: [] };
  const { at, logTail = "" } = exit;
  const ago = agoOf(at, nowMs);
  const tail = logTail
    .trimEnd()
    .split("\n")
    .filter((line) => line !== "");
  return {
    title,
    lines: [
      ago === undefined ? exitText(exit) : `${exitText(exit)}, ${ago}`,
      ...tail.map((line) => `| ${printable(line)}`),
    ],
  };
}

function memorySection({ spec, status }: InferenceReplica): Section {
  const { memory } = spec;
  const parts = claimParts(memory).map(([label, bytes]) => [label, formatBytes(bytes)] as const);
  const used = status?.memory?.footprintBytes;
  const rows = [
    ...parts,
    ["claim", formatBytes(memory.claimBytes)] as const,
    ...(used === undefined ? [] : [["measured", formatBytes(used)] as const]),
  ];
  const labels = Math.max(...rows.map(([label]) => label.length));
  const sizes = Math.max(...rows.map(([, size]) => size.length));
  return {
    title: "Memory",
    lines: rows.map(([label, size]) => `${label.padEnd(labels)}  ${size.padStart(sizes)}`),
  };
}

/** Settings that have a separate line. */
const SEPARATE_LINE = new Set(["mode", "contextSize", "parallelSlots", "chatTemplate", "extraArgs"]);

function engineSection({ spec, status }: InferenceReplica): Section {
  const { template, probes } = spec;
  const { engine, model, draft, projector, loraAdapters = [], auth, gate, tls } = template;
  const fields: Field[] = [
    ["runtime", template.runtime],
    ["model", modelOf(model, status?.model?.sizeBytes)],
    ["draft model", draft === undefined ? undefined : modelOf(draft, undefined)],
    ["projector", projector === undefined ? undefined : modelOf(projector, undefined)],
    ...loraAdapters.map(({ model: adapter, scale, servedName }): Field => {
      const use = servedName === undefined ? `× ${scale}` : `as model ${servedName}`;
      return ["LoRA adapter", `${modelOf(adapter, undefined)} ${use}`];
    }),
    ["mode", engine.mode],
    ["context", contextOf(engine, status?.contextPerSlot)],
    ["chat template", engine.chatTemplate === undefined ? undefined : "from the service"],
    ["settings", settingsOf(engine)],
    ["extra arguments", engine.extraArgs?.join(" ")],
    ["API key", auth === undefined ? undefined : `Secret ${auth.secretName}, key ${auth.key}`],
    ["TLS", tls === undefined ? undefined : `Secret ${tls.secretName}`],
    ["gate", gate],
    ["priority", `${spec.priority}${spec.evictionProtection ? ", never evicted under memory pressure" : ""}`],
    ["drain", `at most ${spec.drainSeconds}s for requests in flight`],
    ["host lost", `rescheduled after ${spec.hostLostSeconds}s of silence`],
    [
      "health",
      `hung after ${probes.failureThreshold} consecutive failed probes of ${probes.timeoutSeconds}s`,
    ],
  ];
  return { title: "Engine", lines: fieldLines(fields) };
}

function modelOf(model: ReplicaModel, foundBytes: number | undefined): string {
  const { source, format, gguf, sizeBytes } = model;
  const size = foundBytes ?? sizeBytes;
  const content = revisionContentOf(model);
  const revision = content === undefined ? undefined : `revision ${shortRevision(content)}`;
  const about = [format, gguf?.quantization, size === undefined ? undefined : formatBytes(size), revision];
  return `${source} (${about.filter((word) => word !== undefined).join(", ")})`;
}

function contextOf(
  { contextSize, parallelSlots }: EngineSettings,
  perSlot: number | undefined,
): string | undefined {
  if (contextSize === undefined) return undefined;
  const slots = parallelSlots ?? 1;
  const each = perSlot === undefined || slots === 1 ? "" : `, ${perSlot} each`;
  return `${contextSize} tokens for ${slots} ${slots === 1 ? "slot" : "slots"}${each}`;
}

function settingsOf(engine: EngineSettings): string {
  return Object.entries(engine)
    .filter(([key, value]) => !SEPARATE_LINE.has(key) && value !== undefined)
    .map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");
}
