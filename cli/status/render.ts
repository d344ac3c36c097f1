/** The overview as one screen of text. Pure. */
import { keyOf } from "../../src/api/names.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { downloadText, secondsLeft, shareOf } from "../../src/verdicts/download.ts";
import { formatSpan } from "../program/age.ts";
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
  const { state, host, claimBytes, port = "", restarts, message } = replica;
  const note = [message, downloadBar(replica.download)].filter((part) => part !== "").join(" ");
  return [keyOf(replica), state, host, formatBytes(claimBytes), String(port), String(restarts), note];
}

const BAR_STEPS = 20;

/** "[######--------------] 30%, 11.7 GiB of 39.1 GiB, 112 MiB/s, 4m10s left", without the parts that are unknown. */
function downloadBar(download: ReplicaLine["download"]): string {
  if (download === undefined) return "";
  const [share, seconds] = [shareOf(download), secondsLeft(download)];
  if (share === undefined) return downloadText(download);
  const full = Math.floor(share * BAR_STEPS);
  const bar = `[${"#".repeat(full)}${"-".repeat(BAR_STEPS - full)}] ${Math.floor(share * 100)}%`;
  const left = seconds === undefined ? "" : `, ${formatSpan(seconds * 1_000)} left`;
  return `${bar}, ${downloadText(download)}${left}`;
}

function section(first: string, titles: Row, rows: readonly Row[], empty: string): readonly string[] {
  if (rows.length === 0) return [first, `  ${empty}`];
  return alignColumns([[first, ...titles], ...rows]);
}

const COLORS: readonly (readonly [RegExp, number])[] = [
  [/^(HOST|SERVICE|REPLICA)\b.*/, 1],
  [/\bReady\b/, 32],
  [/\b(Failed|Backoff|Lost|Evicted)\b/, 31],
  [/\b(Waiting\w*|Pending|Fetching|Starting|Draining|[Uu]nreachable)\b/, 33],
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
