/** The live screen of `metalbridge top` as lines of text. Pure. */

import type { ReadQueues } from "../../server/gateway-queues.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { keyOf } from "../../src/api/names.ts";
import { isServing } from "../../src/verdicts/replica.ts";
import { alignColumns, type Row } from "../program/table.ts";
import { claimedOf, type OverviewHostLine, overviewOf } from "../status/overview.ts";

export interface TopInput {
  /** Undefined if the reader may not list hosts. */
  readonly hosts: readonly Host[] | undefined;
  readonly services: readonly InferenceService[];
  readonly replicas: readonly InferenceReplica[];
  readonly requests: ReadQueues;
}

export interface TopHead {
  readonly title: string;
  /** Why the screen is not current; empty if it is. */
  readonly problem: string;
  /** What the reader may not see, and why. */
  readonly missing?: readonly string[];
}

export interface TopSize {
  readonly columns: number;
  readonly rows: number;
}

const BAR = 20;
const EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/** At most `rows` lines of at most `columns` characters; the last line counts the lines that do not fit. `input` is undefined before the first read. */
export function topLines(
  input: TopInput | undefined,
  { title, problem, missing = [] }: TopHead,
  { columns, rows }: TopSize,
): readonly string[] {
  const head = [title, problem, ...missing];
  const [hosts, others] = input === undefined ? [[], []] : [hostTable(input), otherTables(input)];
  const shown = shortHosts(hosts, rows - head.length, others.length);
  const lines = [...head, ...shown, ...others].map((line) =>
    line.length > columns ? `${line.slice(0, Math.max(0, columns - 1))}…` : line,
  );
  if (lines.length <= rows) return lines;
  return [...lines.slice(0, Math.max(0, rows - 1)), `… ${lines.length - rows + 1} more lines`];
}

/** Hosts get half of the room, and what the other tables leave. */
function shortHosts(table: readonly string[], room: number, others: number): readonly string[] {
  const most = Math.max(Math.floor(room / 2), room - others);
  if (table.length <= Math.max(most, 3)) return table;
  const kept = Math.max(1, most - 2);
  return [...table.slice(0, kept), `… ${table.length - 1 - kept} more hosts`, ""];
}

/** With the line that separates it from the next one. */
function hostTable({ hosts, services, replicas }: TopInput): readonly string[] {
  if (hosts === undefined) return [];
  const pressures = new Map(
    hosts.map(({ metadata, status }) => [metadata.name, status?.memory?.pressure ?? ""]),
  );
  const lines = alignColumns([
    ["HOST", "STATE", "MEMORY CLAIMED", "", "PRESSURE", "REPLICAS"],
    ...overviewOf(hosts, services, replicas).hosts.map((host) => [
      ...[host.name, host.state, barOf(host), claimedOf(host), pressures.get(host.name) ?? ""],
      String(replicas.filter(({ spec }) => spec.template.hostName === host.name).length),
    ]),
  ]);
  return [...lines, ""];
}

function otherTables(input: TopInput): readonly string[] {
  const { services } = overviewOf([], input.services, input.replicas);
  const speeds = speedsOf(input);
  const live = new Map(
    input.services.map((service) => [keyOf(service.metadata), service.status?.performance?.tokensPerSecond]),
  );
  const queue = queueOf(input.services);
  return [
    ...alignColumns([
      ["SERVICE", "PHASE", "READY", "ON", "MODEL", "TOKENS/S", "NOW", "MESSAGE"],
      ...services.map((service) => {
        const { phase, ready, on, model, message } = service;
        const speed = speeds.get(keyOf(service)) ?? "-";
        const now = live.get(keyOf(service)) ?? "-";
        return [keyOf(service), phase, ready, on, model, String(speed), String(now), message];
      }),
    ]),
    ...(queue.length === 0 ? [] : ["", ...alignColumns([["QUEUE", "ON", "SERVICE", "WAITS FOR"], ...queue])]),
    ...requestLines(input.requests),
  ];
}

/** By service: the speed that hosts have measured for one request of the model, summed over the ready replicas. */
function speedsOf({ hosts, replicas }: TopInput): ReadonlyMap<string, number> {
  const speeds = new Map<string, number>();
  for (const { metadata, spec } of replicas.filter(isServing)) {
    const { hostName, model, serviceName } = spec.template;
    const host = hosts?.find((one) => one.metadata.name === hostName);
    const speed = host?.status?.models?.find(({ source }) => source === model.source)?.tokensPerSecond;
    const key = `${metadata.namespace}/${serviceName}`;
    if (speed !== undefined) speeds.set(key, Math.round(((speeds.get(key) ?? 0) + speed) * 10) / 10);
  }
  return speeds;
}

/** Hosts and pods have separate queues. */
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
      keyOf(metadata),
      status?.waitingFor ?? status?.message ?? "",
    ]);
}

function barOf({ claimedBytes, budgetBytes }: OverviewHostLine): string {
  if (budgetBytes === undefined || budgetBytes <= 0) return "";
  const eighths = Math.round(Math.min(1, claimedBytes / budgetBytes) * BAR * 8);
  return ("█".repeat(Math.floor(eighths / 8)) + (EIGHTHS[eighths % 8] ?? "")).padEnd(BAR, "░");
}

/** Services with requests, then the keys that wait. Empty without a gateway. */
export function requestLines({ queues, gateways, answered, problem }: ReadQueues): readonly string[] {
  const busy = queues.filter(({ waiting, slots }) => waiting + slots.used > 0);
  const waiting = queues.flatMap(({ service, keys }) => keys.map((key) => ({ service, ...key })));
  const missing = gateways === 0 ? "" : `${answered} of ${gateways} gateways answered: `;
  return [
    ...(problem === undefined ? [] : ["", `cannot read the queues of requests: ${missing}${problem}`]),
    ...table(
      ["REQUESTS", "SLOTS", "WAITING", "LONGEST WAIT"],
      busy.map((queue) => [
        ...[queue.service, `${queue.slots.used}/${queue.slots.total}`, String(queue.waiting)],
        waitText(queue.longestWaitSeconds),
      ]),
    ),
    ...table(
      ["WAITING", "KEY", "REQUESTS", "NEXT", "LONGEST WAIT"],
      waiting.map(({ service, key, waiting: requests, position, longestWaitSeconds }) => [
        ...[service, key, String(requests), String(position), waitText(longestWaitSeconds)],
      ]),
    ),
  ];
}

function table(titles: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  return rows.length === 0 ? [] : ["", ...alignColumns([titles, ...rows])];
}

function waitText(seconds: number): string {
  return seconds === 0 ? "-" : `${seconds.toFixed(seconds < 10 ? 1 : 0)}s`;
}
