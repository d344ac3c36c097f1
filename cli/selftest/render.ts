/** selftest's report as text and as JSON. Pure. */
import { exitCodes } from "../program/exit-codes.ts";
import type { Outcome, Result } from "./step.ts";

const STATUSES = ["failed", "unknown", "ok", "notApplicable"] as const satisfies readonly Outcome["status"][];
const LABELS = { failed: "failed", unknown: "unknown", ok: "ok", notApplicable: "-" } as const;

/** One line, printed as soon as the step is done; what was to be proved follows where it was not. */
export function renderResult({ name, proves, status, found }: Result): string {
  const head = `${LABELS[status].padEnd(7)}  ${name.padEnd(NAME)}  ${found}`;
  return status === "failed" || status === "unknown" ? `${head}\n         expected: ${proves}` : head;
}

const NAME = 16;

export function renderSummary(results: readonly Result[]): string {
  const counts = countOf(results);
  return `${counts.failed} failed, ${counts.unknown} unknown, ${counts.ok} passed, ${counts.notApplicable} not applicable`;
}

/** 1 where a fact does not hold, 3 where one could not be checked, else 0; as doctor's. */
export function exitCodeOf(results: readonly Result[]): number {
  const { failed, unknown } = countOf(results);
  if (failed > 0) return exitCodes.failed;
  return unknown > 0 ? exitCodes.warnings : exitCodes.ok;
}

export function countOf(results: readonly Result[]): Readonly<Record<Outcome["status"], number>> {
  const of = (status: Outcome["status"]) => results.filter((result) => result.status === status).length;
  return Object.fromEntries(STATUSES.map((status) => [status, of(status)])) as Record<
    Outcome["status"],
    number
  >;
}
