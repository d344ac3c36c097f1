/** The report of a simulated day, as Markdown. */

import { PRIORITIES } from "../../src/capacity/placement/priority.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import type { SimulationOptions } from "./options.ts";
import type { PriorityName } from "./services.ts";
import type { SimulationTally, Wait } from "./tally.ts";

const NAMES = Object.keys(PRIORITIES) as PriorityName[];

export function renderSimulationReport(options: SimulationOptions, tally: SimulationTally): string {
  const { hosts, services, hours, seed, load } = options;
  return [
    `${hosts} hosts, ${services} services at a time, ${hours} h, load ${load}, seed ${seed}`,
    "",
    ...summary(tally),
    "",
    ...waitTable(tally.waits),
    "",
    ...sizeTable(tally.waits),
    "",
    ...passTable(tally),
    "",
  ].join("\n");
}

function summary(tally: SimulationTally): string[] {
  const { samples, counts, preemptions } = tally;
  const used = samples.map(({ claimedBytes, budgetBytes }) =>
    budgetBytes === 0 ? 0 : claimedBytes / budgetBytes,
  );
  const waiting = samples.map((sample) => sample.waiting);
  const held = samples.map((sample) => sample.held);
  const moves = NAMES.map((name) => `${name} ${preemptions.get(name) ?? 0}`).join(", ");
  return [
    "| | |",
    "|---|---|",
    `| memory claimed, of all budgets: median, most | ${percent(at(used, 0.5))}, ${percent(at(used, 1))} |`,
    `| services queued: median, most | ${at(waiting, 0.5)}, ${at(waiting, 1)} |`,
    `| hosts reserved for slots queued for long: median, most | ${at(held, 0.5)}, ${at(held, 1)} |`,
    `| replicas placed | ${tally.placements()} |`,
    `| hosts that crashed | ${counts.get("crashes") ?? 0} |`,
    `| replicas rescheduled after a loss | ${counts.get("replaced after a loss") ?? 0} |`,
    `| replicas refused by their host | ${counts.get("refused") ?? 0} |`,
    `| replicas preempted by a higher priority | ${moves}: ${formatBytes(tally.movedBytes())} |`,
    "| healthy replicas moved for a better score | 0, by construction |",
  ];
}

function waitTable(waits: readonly Wait[]): string[] {
  return [
    "| priority | times without a host | at once | median of the rest | 95 % | longest | deleted or still queued |",
    "|---|---|---|---|---|---|---|",
    ...NAMES.map((name) =>
      waitRow(
        name,
        waits.filter(({ priority }) => priority === name),
      ),
    ),
  ];
}

function sizeTable(waits: readonly Wait[]): string[] {
  const sorted = [...waits].sort((a, b) => a.bytes - b.bytes);
  const quarter = Math.ceil(sorted.length / 4);
  const rows = [0, 1, 2, 3].map((index) => {
    const part = sorted.slice(index * quarter, (index + 1) * quarter);
    const name = `up to ${formatBytes(part.at(-1)?.bytes ?? 0)}`;
    return waitRow(name, part);
  });
  return [
    "| size of the claim, by quarters | times without a host | at once | median of the rest | 95 % | longest | deleted or still queued |",
    "|---|---|---|---|---|---|---|",
    ...rows,
  ];
}

function waitRow(name: string, waits: readonly Wait[]): string {
  const served = waits.filter(({ isServed }) => isServed);
  const later = served.filter(({ ms }) => ms > 0).map(({ ms }) => ms);
  const atOnce = waits.length === 0 ? 0 : (served.length - later.length) / waits.length;
  const cells = [
    waits.length,
    percent(atOnce),
    span(at(later, 0.5)),
    span(at(later, 0.95)),
    span(at(later, 1)),
  ];
  return `| ${[name, ...cells, waits.length - served.length].join(" | ")} |`;
}

function passTable({ passes, cpu }: SimulationTally): string[] {
  const [first = 0, ...others] = passes;
  const { firstMs, othersMs } = cpu();
  const mean = othersMs / Math.max(1, others.length);
  const elapsed = [at(others, 0.5), at(others, 0.99), at(others, 1)].map(ms);
  return [
    "| pass | how many | CPU time, on average | elapsed: median | 99 % | longest |",
    "|---|---|---|---|---|---|",
    `| first: all services at once | 1 | ${ms(firstMs)} | ${ms(first)} | | |`,
    `| after one change | ${others.length} | ${ms(mean)} | ${elapsed.join(" | ")} |`,
  ];
}

/** The value below which this part of all lies. */
function at(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0;
}

function percent(part: number): string {
  return `${(part * 100).toFixed(1)} %`;
}

function ms(value: number): string {
  return `${value.toFixed(value < 1 ? 3 : 1)} ms`;
}

function span(value: number): string {
  if (value < 120_000) return `${Math.round(value / 1000)} s`;
  return value < 7_200_000 ? `${Math.round(value / 60_000)} min` : `${(value / 3_600_000).toFixed(1)} h`;
}
