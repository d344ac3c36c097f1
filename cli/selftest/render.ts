/** Renders the report of selftest. Pure. */
import { exitCodes } from "../program/exit-codes.ts";
import type { SelftestOutcome, SelftestResult } from "./step.ts";

const STATUSES = [
  "failed",
  "unknown",
  "ok",
  "notApplicable",
] as const satisfies readonly SelftestOutcome["status"][];
const LABELS = { failed: "failed", unknown: "unknown", ok: "ok", notApplicable: "-" } as const;

/** One line, printed after each step. The expected fact follows if it was not confirmed. */
export function renderResult({ name, proves, status, found }: SelftestResult): string {
  const head = `${LABELS[status].padEnd(7)}  ${name.padEnd(NAME)}  ${found}`;
  return status === "failed" || status === "unknown" ? `${head}\n         expected: ${proves}` : head;
}

const NAME = 16;

export function renderSummary(results: readonly SelftestResult[]): string {
  const counts = countByStatus(results);
  return `${counts.failed} failed, ${counts.unknown} unknown, ${counts.ok} passed, ${counts.notApplicable} not applicable`;
}

/** As in doctor: 1 if a step failed, 3 if a fact could not be checked, else 0. */
export function selftestExitCode(results: readonly SelftestResult[]): number {
  const { failed, unknown } = countByStatus(results);
  if (failed > 0) return exitCodes.failed;
  return unknown > 0 ? exitCodes.warnings : exitCodes.ok;
}

export function countByStatus(
  results: readonly SelftestResult[],
): Readonly<Record<SelftestOutcome["status"], number>> {
  const of = (status: SelftestOutcome["status"]) =>
    results.filter((result) => result.status === status).length;
  return Object.fromEntries(STATUSES.map((status) => [status, of(status)])) as Record<
    SelftestOutcome["status"],
    number
  >;
}
