/** What a run found, as data and as a table. */
import type { Violation } from "../invariants/invariant.ts";
import { INVARIANTS } from "../invariants/registry.ts";
import { judgeFailures } from "../invariants/requests.ts";
import { eventsOf, type Recording } from "../observe/recording.ts";
import type { EngineName } from "../plan/catalog.ts";
import type { Schedule } from "../plan/plan-faults.ts";

export interface Report {
  readonly seed: number;
  readonly minutes: number;
  readonly engine: EngineName;
  readonly nodes: number;
  readonly tookMs: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly skipped: Readonly<Record<string, number>>;
  readonly requests: {
    readonly answered: number;
    readonly lost: number;
    /** Failed, and rightly so, by the reason. */
    readonly excused: Readonly<Record<string, number>>;
    readonly p50Ms: number;
    readonly p99Ms: number;
  };
  readonly rounds: readonly { readonly index: number; readonly convergedAfterMs: number | undefined }[];
  /** How late the harness itself got to run; it was added to every deadline that it touched. */
  readonly lag: { readonly times: number; readonly maxMs: number; readonly sumMs: number };
  readonly engines: { readonly started: number; readonly killed: number };
  readonly violations: readonly Violation[];
}

export function reportOf(recording: Recording, schedule: Schedule, violations: readonly Violation[]): Report {
  const now = recording.at(-1)?.at ?? 0;
  const faults = eventsOf(recording, "fault");
  const lags = eventsOf(recording, "lag").map(({ maxMs }) => maxMs);
  const engines = eventsOf(recording, "engine");
  return {
    seed: schedule.seed,
    minutes: schedule.minutes,
    engine: schedule.engine,
    nodes: schedule.nodes,
    tookMs: Math.round(now),
    faults: countBy(faults.filter(({ phase }) => phase === "injected").map(({ kind }) => kind)),
    skipped: countBy(
      faults.filter(({ phase }) => phase === "skipped").map(({ kind, detail }) => `${kind}: ${detail}`),
    ),
    requests: requestsOf(recording, now),
    rounds: roundsOf(recording),
    lag: { times: lags.length, maxMs: Math.max(0, ...lags), sumMs: lags.reduce((sum, ms) => sum + ms, 0) },
    engines: {
      started: engines.filter(({ change }) => change === "appeared").length,
      killed: engines.filter(({ change }) => change === "killed").length,
    },
    violations,
  };
}

function requestsOf(recording: Recording, now: number): Report["requests"] {
  const all = eventsOf(recording, "request");
  const judged = judgeFailures(recording, now);
  const answered = all.filter(({ outcome }) => outcome === "answered");
  const times = answered.map(({ at, startedAt }) => at - startedAt).sort((one, other) => one - other);
  const quantile = (share: number) => Math.round(times[Math.floor(share * (times.length - 1))] ?? 0);
  return {
    answered: answered.length,
    lost: judged.filter(({ excuse }) => excuse === undefined).length,
    // Without the pids and names, so that they add up.
    excused: countBy(
      judged.flatMap(({ excuse }) => (excuse === undefined ? [] : [excuse.replace(/\d[\d.]*/g, "…")])),
    ),
    p50Ms: quantile(0.5),
    p99Ms: quantile(0.99),
  };
}

function roundsOf(recording: Recording): Report["rounds"] {
  let healedAt = 0;
  const rounds: { index: number; convergedAfterMs: number | undefined }[] = [];
  for (const { at, index, change } of eventsOf(recording, "round")) {
    if (change === "healed") healedAt = at;
    if (change === "converged") rounds.push({ index, convergedAfterMs: Math.round(at - healedAt) });
    if (change === "notConverged") rounds.push({ index, convergedAfterMs: undefined });
  }
  return rounds;
}

function countBy(words: readonly string[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}

export function renderReport(report: Report): string {
  const { requests, rounds, lag, engines } = report;
  const rows = (title: string, counts: Readonly<Record<string, number>>) =>
    Object.entries(counts).length === 0
      ? []
      : [title, ...Object.entries(counts).map(([word, count]) => `  ${String(count).padStart(5)}  ${word}`)];
  const converged = rounds.map(({ convergedAfterMs }) =>
    convergedAfterMs === undefined ? "never" : `${(convergedAfterMs / 1_000).toFixed(1)} s`,
  );
  return [
    `seed ${report.seed}, ${report.minutes} minutes, took ${(report.tookMs / 60_000).toFixed(1)}`,
    ...rows("faults", report.faults),
    ...rows("faults that had nothing to do", report.skipped),
    `requests: ${requests.answered} answered (p50 ${requests.p50Ms} ms, p99 ${requests.p99Ms} ms), ${requests.lost} lost`,
    ...rows("requests that failed rightly", requests.excused),
    `engines: ${engines.started} started, ${engines.killed} killed`,
    `came right after: ${converged.join(", ")}`,
    `the harness itself was late ${lag.times} times, at most ${lag.maxMs} ms, together ${lag.sumMs} ms`,
    "invariants",
    ...INVARIANTS.map(({ name, promise }) => {
      const broken = report.violations.filter(({ invariant }) => invariant === name).length;
      return `  ${broken === 0 ? "held    " : `${broken} broken`.padEnd(8)}  ${name.padEnd(20)}  ${promise}`;
    }),
  ].join("\n");
}
