/** Renders the report of doctor as text and as JSON, for one host and for several. Pure. */
import { describeError, type MetalbridgeError } from "../../src/api/errors.ts";
import type { CheckResult, Status } from "../../src/doctor/checks/check.ts";
import { exitCodes } from "../program/exit-codes.ts";
import { alignColumns, type Row } from "../program/table.ts";
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

/** The report of one host, or why there is none. */
export type HostReport =
  | { readonly host: string; readonly report: DoctorReport }
  | { readonly host: string; readonly error: MetalbridgeError };

const RANK = ["error", "warning", "unknown", "note"] as const;

/** Renders one host in full, and several hosts as a table of findings. */
export function renderHostReports(reports: readonly HostReport[], isAll: boolean): string {
  const [only] = reports;
  if (only === undefined) return "there are no hosts";
  if (reports.length === 1)
    return "report" in only
      ? `${renderDoctorReport(only.report, { isAll })}\n${notRunRemotely(only.report.results, only.host)}`
      : renderUnchecked(only.host, only.error);
  const rows = reports.flatMap(rowsOf).sort(([, a = ""], [, b = ""]) => rank(a) - rank(b));
  const healthy = reports.filter((one) => rowsOf(one).length === 0).map(({ host }) => host);
  const table = rows.length === 0 ? [] : alignColumns([["HOST", "STATUS", "CODE", "FINDING"], ...rows]);
  const healthyLine =
    healthy.length === 0
      ? []
      : [`${healthy.length} of ${reports.length} hosts without findings: ${healthy.join(", ")}`];
  const hint = rows.length === 0 ? [] : ["for reasons and fixes: metalbridge doctor --host <name>"];
  return [...table, ...healthyLine, ...hint].join("\n");
}

function renderUnchecked(host: string, { code, message, remedy }: MetalbridgeError): string {
  const command = remedy.command === undefined ? [] : [`           ${remedy.command}`];
  const head = [`${host}: not checked`, "", `error    ${code}: ${message}`];
  return [...head, `         fix: ${remedy.summary}`, ...command].join("\n");
}

/** Always a list, for scripts. */
export function hostFields(reports: readonly HostReport[]): readonly object[] {
  return reports.map((one) =>
    "report" in one
      ? reportFields(one.report)
      : { host: one.host, error: { code: one.error.code, message: one.error.message, ...one.error.remedy } },
  );
}

/** A host without a report is a failure. */
export function exitCodeOfHosts(reports: readonly HostReport[]): number {
  if (reports.some((one) => "error" in one)) return exitCodes.failed;
  return doctorExitCode(reports.flatMap((one) => ("report" in one ? one.report.results : [])));
}

function rowsOf(one: HostReport): readonly Row[] {
  if ("error" in one) return [[one.host, "error", one.error.code, describeError(one.error)]];
  return one.report.results
    .filter(({ status }) => rank(status) >= 0)
    .map(({ status, code, finding }) => [one.host, status, code, finding]);
}

function rank(status: string): number {
  return (RANK as readonly string[]).indexOf(status);
}

/** Checks that an agent does not run for other machines, and the command that runs them on the host. */
function notRunRemotely(results: readonly CheckResult[], host: string): string {
  const unknown = results.filter(({ status }) => status === "unknown").map(({ code }) => code);
  const what = ["--fix", "programs of other users on the engines' ports", ...unknown];
  return `not run remotely: ${what.join(", ")}; on ${host} run\n  sudo metalbridge doctor`;
}
