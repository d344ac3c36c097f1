/** The overview as one screen of text. Pure. */
import { keyOf } from "../../src/api/names.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { alignColumns, type Row } from "../program/table.ts";
import {
  claimedOf,
  type Overview,
  type OverviewHostLine,
  type ReplicaLine,
  type ServiceLine,
} from "./overview.ts";

export interface RenderOptions {
  readonly color: boolean;
  /** Columns of the terminal. Undefined for a pipe, where each object has one line of any length. */
  readonly width: number | undefined;
}

export function renderOverview(overview: Overview, options: RenderOptions): string {
  const { hosts, missing = [] } = overview;
  const sections = [
    ...(overview.controller === undefined ? [] : [[overview.controller]]),
    ...(missing.length === 0 ? [] : [missing]),
    ...(hosts === undefined ? [] : [hostSection(hosts)]),
    section(
      "SERVICE",
      ["PHASE", "READY", "MODEL", "ENDPOINT", "MESSAGE"],
      overview.services.map(serviceRow),
      "no services: kubectl apply -f examples/quickstart",
    ),
    section(
      "REPLICA",
      ["PHASE", "HOST", "CLAIM", "PORT", "RESTARTS", "MESSAGE"],
      overview.replicas.map(replicaRow),
      "no replicas",
    ),
  ];
  const lines = sections.flatMap((lines, index) => (index === 0 ? lines : ["", ...lines]));
  return lines
    .flatMap((line) => {
      const [first = "", ...more] = wrapped(line, options.width);
      return [paint(first, options.color), ...more];
    })
    .join("\n");
}

function hostSection(hosts: readonly OverviewHostLine[]): readonly string[] {
  const titles = ["STATE", "MEMORY", "MACHINE", "RUNTIMES"];
  return section("HOST", titles, hosts.map(hostRow), "no hosts: see docs/add-a-host.md");
}

function hostRow(host: OverviewHostLine): Row {
  return [host.name, host.state, claimedOf(host), host.machine, host.runtimes.join(", ")];
}

function serviceRow(service: ServiceLine): Row {
  const { phase, ready, model, endpoint, message } = service;
  return [keyOf(service), phase, ready, model, endpoint, message];
}

function replicaRow(replica: ReplicaLine): Row {
  const phase = replica.isReachable ? replica.phase : `${replica.phase}, host unreachable`;
  const { host, claimBytes, port = "", restarts, message } = replica;
  const note = [message, downloadBar(replica.download)].filter((part) => part !== "").join(" ");
  return [keyOf(replica), phase, host, formatBytes(claimBytes), String(port), String(restarts), note];
}

const BAR_STEPS = 20;

/** "[######--------------] 30 % of 39.1 GiB, 112 MiB/s, 4 min left", without the parts that are unknown. */
function downloadBar(download: ReplicaLine["download"]): string {
  if (download === undefined) return "";
  const { bytes, totalBytes, bytesPerSecond = 0 } = download;
  const speed = bytesPerSecond === 0 ? [] : [`${formatBytes(bytesPerSecond)}/s`];
  if (totalBytes === undefined || totalBytes === 0) return [formatBytes(bytes), ...speed].join(", ");
  const share = Math.min(1, bytes / totalBytes);
  const full = Math.floor(share * BAR_STEPS);
  const bar = `[${"#".repeat(full)}${"-".repeat(BAR_STEPS - full)}]`;
  const left = bytesPerSecond === 0 ? [] : [timeLeft((totalBytes - bytes) / bytesPerSecond)];
  return [`${bar} ${Math.floor(share * 100)}% of ${formatBytes(totalBytes)}`, ...speed, ...left].join(", ");
}

function timeLeft(seconds: number): string {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s left`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min left` : `${Math.floor(minutes / 60)} h ${minutes % 60} min left`;
}

function section(first: string, titles: Row, rows: readonly Row[], empty: string): readonly string[] {
  if (rows.length === 0) return [first, `  ${empty}`];
  return alignColumns([[first, ...titles], ...rows]);
}

const COLORS: readonly (readonly [RegExp, number])[] = [
  [/^(HOST|SERVICE|REPLICA)\b.*/, 1],
  [/\bReady\b/, 32],
  [/\b(Failed|Backoff|Lost|Evicted)\b/, 31],
  [/\b(Waiting\w*|Pending|Fetching|Starting|Draining|unreachable)\b/, 33],
];

function paint(line: string, color: boolean): string {
  if (!color) return line;
  for (const [pattern, code] of COLORS) {
    if (pattern.test(line)) return line.replace(pattern, (text) => `\u001b[${code}m${text}\u001b[0m`);
  }
  return line;
}

const INDENT = "    ";

/** Wraps a line between words, because a terminal would mix a long message with the columns. */
function wrapped(line: string, width: number | undefined): readonly string[] {
  const lines: string[] = [];
  let unwrapped = line;
  while (width !== undefined && unwrapped.length > width) {
    const blank = unwrapped.lastIndexOf(" ", width);
    const at = blank > INDENT.length ? blank : unwrapped.indexOf(" ", width);
    if (at < 0) break;
    lines.push(unwrapped.slice(0, at).trimEnd());
    unwrapped = INDENT + unwrapped.slice(at).trimStart();
  }
  return [...lines, unwrapped];
}
