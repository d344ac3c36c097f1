/** Renders the reports of several hosts, errors first. Pure. */
import { describeError, type MetalbridgeError } from "../../src/api/errors.ts";
import type { CheckResult } from "../../src/doctor/checks/check.ts";
import { exitCodes } from "../program/exit-codes.ts";
import { alignColumns, type Row } from "../program/table.ts";
import type { HostReport } from "./on-hosts.ts";
import { doctorExitCode, renderDoctorReport, reportFields } from "./render.ts";

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
