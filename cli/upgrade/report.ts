/** The result of each host, for a table, for JSON and for the error at the end. Pure. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { compareText } from "../../src/util/text.ts";
import { alignColumns, formatTable } from "../program/table.ts";
import type { HostResult } from "./one-host.ts";
import type { SkippedHost, UpgradePlan } from "./plan.ts";

export type HostState = HostResult | { readonly at: SkippedHost["because"] };
export type UpgradeHostLine = HostState & { readonly host: string; readonly from: string };

export interface UpgradeOutcome {
  readonly results: ReadonlyMap<string, HostResult>;
  readonly last: UpgradePlan;
  /** Why the next batch could not be planned. */
  readonly problem?: unknown;
}

/** Sorted by name. Hosts without a result have the state from the last plan. */
export function upgradeLines(
  { batches, leftOut }: UpgradePlan,
  { results, last }: UpgradeOutcome,
): readonly UpgradeHostLine[] {
  const targeted = batches.flat().map(({ host, from }): UpgradeHostLine => {
    const result = results.get(host);
    if (result !== undefined) return { host, from, ...result };
    return { host, from, at: last.leftOut.find((left) => left.host === host)?.because ?? "not started" };
  });
  const skipped = leftOut.map(({ host, from, because }): UpgradeHostLine => ({ host, from, at: because }));
  return [...targeted, ...skipped].sort((a, b) => compareText(a.host, b.host));
}

export function renderLines(lines: readonly UpgradeHostLine[], version: string): string {
  const rows = lines.map((line) => [line.host, line.at, line.from, noteOf(line, version)]);
  return formatTable(["HOST", "STATE", "BEFORE", "NOTE"], rows);
}

export function renderPlan({ batches, leftOut }: UpgradePlan, version: string): string {
  const rows = batches.flatMap((batch, index) =>
    batch.map(({ host, from, platform, replicas }) => [
      ...[String(index + 1), host, from, platform],
      `${replicas.length} ready`,
    ]),
  );
  const skipped = leftOut.map(({ host, from, because }) => ["-", host, from, "", "", because]);
  const titles = [
    "BATCH",
    "HOST",
    "NOW",
    "PLATFORM",
    "REPLICAS",
    ...(skipped.length > 0 ? ["LEFT OUT"] : []),
  ];
  return [`to version ${version}:`, ...alignColumns([titles, ...rows, ...skipped])].join("\n");
}

/** Undefined when every host is on the version. */
export function failureOf(lines: readonly UpgradeHostLine[], version: string): MetalbridgeError | undefined {
  const failed = lines.filter((line) => line.at === "failed");
  const isStopped = lines.some(({ at }) => at === "not started" || at === "unknown");
  const onVersion = lines.filter(({ at }) => at === "upgraded" || at === "current").length;
  const count = `${onVersion} of ${lines.length} hosts run ${version}`;
  if (failed.length > 0) {
    const failures = failed.map(({ host, step, code, message, tail = "" }) => {
      const quoted = tail === "" ? "" : `\n${tail.replaceAll(/^/gm, "  | ")}`;
      return `${host}, step ${step}: ${code}: ${message}${quoted}`;
    });
    return new MetalbridgeError("UpgradeStopped", `${count}; ${failures.join("\n")}`);
  }
  if (isStopped)
    return new MetalbridgeError("UpgradeStopped", `${count}; the command was interrupted`, again);
  const away = lines.filter(({ at }) => at === "unreachable").map(({ host }) => host);
  if (away.length === 0) return undefined;
  return new MetalbridgeError("UpgradeIncomplete", `${count}; unreachable: ${away.join(", ")}`);
}

/** Undefined when the upgrade would bring every host to the version. */
export function failureOfPlan({ leftOut }: UpgradePlan): MetalbridgeError | undefined {
  const away = leftOut.filter(({ because }) => because === "unreachable").map(({ host }) => host);
  if (away.length === 0) return undefined;
  const message = `${away.join(", ")} would be left out: unreachable`;
  return new MetalbridgeError("UpgradeIncomplete", message);
}

const again = {
  summary: "run the same command again to continue with the hosts that are not on the version",
};

function noteOf(line: UpgradeHostLine, version: string): string {
  switch (line.at) {
    case "upgraded":
      return `runs ${version}`;
    case "current":
      return `already ran ${version}`;
    case "failed":
      return `${line.step}: ${line.code}${line.code === "UpgradeRolledBack" ? `; runs ${line.from} again` : ""}`;
    case "unknown":
      return `${line.step}: interrupted; an upgrade that has started continues on the host`;
    case "unreachable":
      return "its agent does not renew its Lease";
    case "not started":
      return "";
    default:
      return line satisfies never;
  }
}
