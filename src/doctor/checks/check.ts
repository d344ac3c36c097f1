/** One check: a pure function of readings. Unreadable is a result of its own, and never a pass. */
import { type ErrorCode, remedyOf } from "../../api/errors.ts";
import type { Readings, TakenReadings } from "../readings.ts";

export type Platform = "darwin" | "linux";
/** error: services fail, or will. warning: they may. note: something could be better. */
export type Severity = "error" | "warning" | "note";

/** A change that `--fix` may make: it needs no root and deletes no data. */
export type Repair =
  | { readonly do: "chmod"; readonly path: string; readonly mode: number }
  | { readonly do: "excludeFromBackup"; readonly path: string }
  | { readonly do: "removeEngine"; readonly path: string };

export interface CheckFinding {
  /** The state of this host, with names and numbers. */
  readonly finding: string;
  /** Absent: the check's own. */
  readonly code?: ErrorCode | undefined;
  readonly severity?: Severity;
  readonly command?: string | undefined;
  readonly repair?: Repair;
}

export interface Check {
  readonly code: ErrorCode;
  /** The subject of the check, as a noun. */
  readonly title: string;
  readonly platforms: readonly Platform[];
  readonly severity: Severity;
  /** The reason why the check matters for a host. */
  readonly reason: string;
  readonly isFixable: boolean;
  /** For Linux, where the catalog's command is one of macOS. */
  readonly linuxCommand?: string;
  readonly examine: (taken: TakenReadings) => CheckOutcome;
}

export type CheckOutcome = readonly CheckFinding[] | "notApplicable" | { readonly unknown: string };

export type Status = "ok" | Severity | "unknown" | "notApplicable";

export interface CheckResult {
  readonly code: ErrorCode;
  readonly check: string;
  readonly status: Status;
  readonly finding: string;
  readonly reason: string;
  readonly fix?: { readonly summary: string; readonly command?: string };
  readonly repair?: Repair;
}

interface Definition<Key extends keyof Readings> {
  readonly code: ErrorCode;
  readonly title: string;
  readonly severity: Severity;
  readonly reason: string;
  readonly needs: readonly Key[];
  /** Absent: both. */
  readonly platforms?: readonly Platform[];
  readonly isFixable?: boolean;
  readonly linuxCommand?: string;
  /** Empty where all is well. */
  readonly judge: (values: Pick<Readings, Key>) => readonly CheckFinding[] | "notApplicable";
}

/** Checks that need a reading which the system does not have do not apply; one that failed makes the result unknown. */
export function defineCheck<Key extends keyof Readings>(definition: Definition<Key>): Check {
  const { needs, judge, platforms = ["darwin", "linux"], isFixable = false, ...rest } = definition;
  return {
    ...rest,
    platforms,
    isFixable,
    examine: (taken) => {
      const values: Partial<Readings> = {};
      for (const key of needs) {
        const reading = taken[key];
        if (reading === undefined) return "notApplicable";
        if ("unknown" in reading) return reading;
        Object.assign(values, { [key]: reading.value });
      }
      return judge(values as Pick<Readings, Key>);
    },
  };
}

/** One result for each finding, or one that says that there was none. */
export function runChecks(
  checks: readonly Check[],
  platform: Platform,
  taken: TakenReadings,
  known: Known = {},
): readonly CheckResult[] {
  return checks.flatMap((check) => resultsOf(check, platform, taken, known));
}

/** Replaces `<host>` in the commands of fixes. */
export interface Known extends Readonly<Record<string, string | undefined>> {}

function resultsOf(
  check: Check,
  platform: Platform,
  taken: TakenReadings,
  known: Known,
): readonly CheckResult[] {
  const { code, title, reason } = check;
  const plain = { code, check: title, finding: "", reason };
  const outcome = check.platforms.includes(platform) ? check.examine(taken) : "notApplicable";
  if (outcome === "notApplicable") return [{ ...plain, status: "notApplicable" }];
  if ("unknown" in outcome) return [{ ...plain, status: "unknown", finding: outcome.unknown }];
  if (outcome.length === 0) return [{ ...plain, status: "ok" }];
  return outcome.map((found) => {
    const remedy = remedyOf(found.code ?? code, known);
    const own = platform === "linux" ? check.linuxCommand : undefined;
    const command = found.command ?? own ?? remedy.command;
    return {
      ...plain,
      code: found.code ?? code,
      status: found.severity ?? check.severity,
      finding: found.finding,
      fix: { summary: remedy.summary, command },
      ...(found.repair === undefined ? {} : { repair: found.repair }),
    };
  });
}
