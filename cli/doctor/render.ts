/** Renders the report of doctor as text and as JSON. Pure. */
import type { CheckResult, Status } from "../../src/doctor/checks/check.ts";
import { exitCodes } from "../program/exit-codes.ts";
import { alignColumns } from "../program/table.ts";
import type { Fixed } from "./fix.ts";

export interface DoctorReport {
  readonly host: string;
  readonly platform: string;
  readonly machine: string;
  readonly tookMs: number;
  readonly results: readonly CheckResult[];
  readonly fixed: readonly Fixed[];
  /** The inventory from systeminformation, or the reason for its absence. */
  readonly inventory: object;
}

const STATUSES = [
  "error",
  "warning",
  "unknown",
  "note",
  "ok",
  "notApplicable",
] as const satisfies readonly Status[];

/** Errors come first. Passed checks are listed only with `isAll`. */
export function renderDoctorReport(report: DoctorReport, { isAll }: { readonly isAll: boolean }): string {
  const { results, fixed, host, machine, tookMs } = report;
  const counts = countOf(results);
  const shown = (["error", "warning", "note"] as const).flatMap((status) =>
    results.filter((result) => result.status === status),
  );
  const passed = results.filter(({ status }) => status === "ok");
  const lines = [
    `${host}: ${machine}`,
    ...fixed.map(({ command, failed }) =>
      failed === undefined ? `fixed: ${command}` : `not fixed: ${command}: ${failed}`,
    ),
    ...shown.flatMap((result) => ["", ...sectionOf(result)]),
    ...unknownLines(results),
    ...(isAll ? ["", ...alignColumns(passed.map(({ code, check }) => ["ok", code, check]))] : []),
    "",
    `${counted(counts.error, "error")}, ${counted(counts.warning, "warning")}, ${counts.unknown} unknown, ${counted(counts.note, "note")}, ${counts.ok} passed, ${counts.notApplicable} not applicable (${(tookMs / 1_000).toFixed(1)} s)`,
  ];
  return lines.join("\n");
}

/** Stable fields, for scripts. */
export function reportFields(report: DoctorReport): object {
  const { host, platform, inventory, fixed, results, tookMs } = report;
  const plain = results.map(({ repair, ...result }) => ({ ...result, isFixable: repair !== undefined }));
  return { host, platform, tookMs, summary: countOf(results), results: plain, fixed, inventory };
}

/** 1 for errors, 3 for warnings or checks that could not be read, else 0. */
export function doctorExitCode(results: readonly CheckResult[]): number {
  const { error, warning, unknown } = countOf(results);
  if (error > 0) return exitCodes.failed;
  return warning + unknown > 0 ? exitCodes.warnings : exitCodes.ok;
}

function countOf(results: readonly CheckResult[]): Readonly<Record<Status, number>> {
  const of = (status: Status) => results.filter((result) => result.status === status).length;
  return Object.fromEntries(STATUSES.map((status) => [status, of(status)])) as Record<Status, number>;
}

function sectionOf({ status, code, finding, reason, fix, repair }: CheckResult): readonly string[] {
  const head = `${status.padEnd(7)}  ${code}: ${finding}`;
  const hint = repair === undefined ? "" : " (or --fix)";
  return [
    head,
    `         why: ${reason}`,
    ...(fix === undefined ? [] : [`         fix: ${fix.summary}${hint}`]),
    ...(fix?.command === undefined ? [] : [`           ${fix.command}`]),
  ];
}

/** A tool that fails can make many checks unknown, so each reason is printed once. */
function unknownLines(results: readonly CheckResult[]): readonly string[] {
  const unknown = results.filter(({ status }) => status === "unknown");
  const reasons = [...new Set(unknown.map(({ finding }) => finding))];
  return reasons.flatMap((reason) => {
    const codes = unknown.filter(({ finding }) => finding === reason).map(({ code }) => code);
    return ["", `unknown  ${reason}`, `         not checked: ${codes.join(", ")}`];
  });
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
