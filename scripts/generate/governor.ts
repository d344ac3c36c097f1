/** The governor's curves for docs/memory.md: simulated hosts, run by the governor itself. */
import { defaultLimits } from "../../agent/pressure/governor/limits.ts";
import { type Machine, type MachineEvent, run } from "../../agent/pressure/governor/testing/machine.ts";
import type { PressureLevel } from "../../agent/pressure/governor/types.ts";

const GIB = 2 ** 30;
const COLUMNS = 100;
const BARS = "▁▂▃▄▅▆▇█";
/** The share of available memory that fills a column. */
const FULL_SHARE = 0.4;
const LETTERS: Readonly<Record<PressureLevel, string>> = { Normal: "·", Warning: "w", Critical: "C" };

interface Curve {
  readonly title: string;
  readonly machine: Machine;
  readonly seconds: number;
}

const engines: Machine["engines"] = [
  { id: "chat", priority: "high", isProtected: false, bytes: 16 * GIB },
  { id: "search", priority: "normal", isProtected: false, bytes: 8 * GIB },
  { id: "nightly", priority: "batch", isProtected: false, bytes: 6 * GIB },
  { id: "summaries", priority: "batch", isProtected: false, bytes: 10 * GIB },
  { id: "alarm", priority: "batch", isProtected: true, bytes: 4 * GIB },
];

const curves: readonly Curve[] = [
  {
    title: "A hog takes 22 GiB more for six minutes",
    machine: { totalGiB: 64, engines, foreign: (t) => (t < 60 ? 8 : t < 400 ? 30 : 8) },
    seconds: 800,
  },
  {
    title: "Another program swings over the threshold every 20 s, for an hour",
    machine: { totalGiB: 64, engines, foreign: (t) => (t % 20 < 10 ? 17 : 8) },
    seconds: 3_600,
  },
  {
    title: "Another program leaks 6 GiB a minute",
    machine: { totalGiB: 64, engines, foreign: (t) => 8 + t / 10 },
    seconds: 700,
  },
  {
    title: "One reading lies",
    machine: {
      totalGiB: 64,
      engines,
      foreign: () => 8,
      lie: (t, honest) => (t === 100 ? { ...honest, pressure: "Critical" } : honest),
    },
    seconds: 400,
  },
  {
    title: "All readings fail from the second minute on",
    machine: {
      totalGiB: 64,
      engines,
      foreign: (t) => (t < 90 ? 8 : 14),
      lie: (t, honest) => (t < 120 ? honest : { at: honest.at, pressure: "Unknown" }),
    },
    seconds: 400,
  },
];

/** One block per curve: what was available, the level, and what was done. */
export function governorLines(): readonly string[] {
  return curves.flatMap(curveLines);
}

function curveLines({ title, machine, seconds }: Curve): readonly string[] {
  const shares: number[] = [];
  const levels: PressureLevel[] = [];
  const events = run(machine, seconds, defaultLimits, ({ availableShare, level }) => {
    shares.push(availableShare);
    levels.push(level);
  });
  const columns = Array.from({ length: COLUMNS }, (_, index) =>
    Math.floor((index * shares.length) / COLUMNS),
  );
  const bar = (share: number): string =>
    BARS.charAt(Math.min(BARS.length - 1, Math.floor((share / FULL_SHARE) * BARS.length)));
  return [
    "",
    `**${title}** (${Math.round(seconds / 6) / 10} minutes)`,
    "",
    "```",
    `available  ${columns.map((at) => bar(shares[at] ?? 0)).join("")}`,
    `level      ${columns.map((at) => LETTERS[levels[at] ?? "Normal"]).join("")}`,
    "```",
    "",
    ...eventLines(events),
  ];
}

const MAX_EVENTS = 24;

/** All events if there are few, otherwise their counts. */
function eventLines(events: readonly MachineEvent[]): readonly string[] {
  if (events.length <= MAX_EVENTS) {
    return [events.map(({ seconds, what, which }) => `${seconds} s ${what} ${which}`).join(", ")];
  }
  const evictions = events.filter(({ what }) => what === "evict");
  const each = engines.flatMap(({ id }) => {
    const count = evictions.filter(({ which }) => which === id).length;
    return count === 0 ? [] : [`${id} ${count}`];
  });
  return [
    `${evictions.length} evictions in all: ${each.join(", ")}; never more than four of one engine within the hour.`,
  ];
}
