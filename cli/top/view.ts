/** The live screen of `metalbridge top` as lines of text. Pure. */

import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { alignColumns, type Row } from "../program/table.ts";
import { type OverviewHostLine, overviewOf } from "../status/overview.ts";

export interface TopInput {
  readonly hosts: readonly Host[];
  readonly services: readonly InferenceService[];
  readonly replicas: readonly InferenceReplica[];
}

export interface TopHead {
  readonly title: string;
  /** What keeps the screen from being current; "": nothing. */
  readonly trouble: string;
}

export interface TopSize {
  readonly columns: number;
  readonly rows: number;
}

const BAR = 20;
const EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/** At most `rows` lines of at most `columns` characters; what does not fit is counted. `input` is undefined until all is read. */
export function topLines(
  input: TopInput | undefined,
  { title, trouble }: TopHead,
  { columns, rows }: TopSize,
): readonly string[] {
  const lines = [title, trouble, ...(input === undefined ? [] : tablesOf(input))].map((line) =>
    line.length > columns ? `${line.slice(0, Math.max(0, columns - 1))}…` : line,
  );
  if (lines.length <= rows) return lines;
  return [...lines.slice(0, Math.max(0, rows - 1)), `… ${lines.length - rows + 1} more lines`];
}

function tablesOf(input: TopInput): readonly string[] {
  const { hosts, services } = overviewOf(input.hosts, input.services, input.replicas);
  const pressures = new Map(
    input.hosts.map(({ metadata, status }) => [metadata.name, status?.memory?.pressure ?? ""]),
  );
  const speeds = speedsOf(input);
  const queue = queueOf(input.services);
  return [
    ...table(
      ["HOST", "STATE", "MEMORY CLAIMED", "", "PRESSURE", "REPLICAS"],
      hosts.map((host) => [
        ...[host.name, host.state, barOf(host), memoryOf(host), pressures.get(host.name) ?? ""],
        String(input.replicas.filter(({ spec }) => spec.template.hostName === host.name).length),
      ]),
    ),
    "",
    ...table(
      ["SERVICE", "PHASE", "READY", "ON", "MODEL", "TOKENS/S", "MESSAGE"],
      services.map(({ namespace, name, phase, ready, on, model, message }) => {
        const speed = speeds.get(`${namespace}/${name}`);
        const shown = speed === undefined ? "-" : String(speed);
        return [`${namespace}/${name}`, phase, ready, on, model, shown, message];
      }),
    ),
    ...(queue.length === 0 ? [] : ["", ...table(["QUEUE", "ON", "SERVICE", "WAITS FOR"], queue)]),
  ];
}

function table(header: Row, rows: readonly Row[]): readonly string[] {
  return alignColumns([header, ...rows]);
}

/** By what each replica's host has measured for one request of its model, summed over ready replicas. */
function speedsOf({ hosts, replicas }: TopInput): ReadonlyMap<string, number> {
  const speeds = new Map<string, number>();
  for (const { metadata, spec, status } of replicas) {
    if (status?.phase !== "Ready") continue;
    const { hostName, model, serviceName } = spec.template;
    const host = hosts.find((one) => one.metadata.name === hostName);
    const speed = host?.status?.models?.find(({ source }) => source === model.source)?.tokensPerSecond;
    const key = `${metadata.namespace}/${serviceName}`;
    if (speed !== undefined) speeds.set(key, Math.round(((speeds.get(key) ?? 0) + speed) * 10) / 10);
  }
  return speeds;
}

/** Hosts and pods have a queue each. */
function queueOf(services: readonly InferenceService[]): readonly Row[] {
  return services
    .filter(({ status }) => (status?.queuePosition ?? 0) > 0)
    .sort(
      (a, b) =>
        (a.status?.on ?? "").localeCompare(b.status?.on ?? "") ||
        (a.status?.queuePosition ?? 0) - (b.status?.queuePosition ?? 0),
    )
    .map(({ metadata, status }) => [
      String(status?.queuePosition ?? ""),
      status?.on ?? "",
      `${metadata.namespace}/${metadata.name}`,
      status?.waitingFor ?? status?.message ?? "",
    ]);
}

function barOf({ claimedBytes, budgetBytes }: OverviewHostLine): string {
  if (budgetBytes === undefined || budgetBytes <= 0) return "";
  const eighths = Math.round(Math.min(1, claimedBytes / budgetBytes) * BAR * 8);
  return ("█".repeat(Math.floor(eighths / 8)) + (EIGHTHS[eighths % 8] ?? "")).padEnd(BAR, "░");
}

function memoryOf({ claimedBytes, budgetBytes }: OverviewHostLine): string {
  const claimed = formatBytes(claimedBytes);
  return budgetBytes === undefined ? claimed : `${claimed} of ${formatBytes(budgetBytes)}`;
}
