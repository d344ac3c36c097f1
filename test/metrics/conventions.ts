/** Prometheus' conventions on names, units and help texts, as far as a machine can judge them. */
import type { ParsedFamily } from "./exposition.ts";

const PREFIXES =
  /^(metalbridge_(agent|host|replica|engine|gate|gateway|controller|service|tokens|model|gpu)_|process_|nodejs_)/;
/** Units other than the base ones. */
const OTHER_UNITS = /_(ms|milliseconds|minutes|hours|kb|mb|gb|kib|mib|gib|kilobytes|megabytes|percent)(_|$)/;

/** What is wrong with a family; empty when nothing is. */
export function problemsOf({
  name,
  type,
  help,
}: Pick<ParsedFamily, "name" | "type" | "help">): readonly string[] {
  const problems: string[] = [];
  const check = (isRight: boolean, why: string): void => {
    if (!isRight) problems.push(`${name}: ${why}`);
  };
  check(PREFIXES.test(name), "belongs to none of the known subsystems");
  check(/^[a-z][a-z0-9_]*$/.test(name) && !name.includes("__"), "is not in snake case");
  check((type === "counter") === name.endsWith("_total"), "only counters end in _total, and all do");
  check(!/_(count|sum|bucket)$/.test(name), "ends as a part of a histogram does");
  check(!OTHER_UNITS.test(name), "has another unit than seconds, bytes or ratio");
  check(type !== "histogram" || /_(seconds|bytes)$/.test(name), "has no unit at its end");
  check(!/duration|age\b/.test(name) || /_seconds(_total)?$/.test(name), "is a time and does not say so");
  check(help.length >= 15 && /^[A-Z0-9].*\.$/.test(help), "needs a help text that is a sentence");
  check(!help.includes("\n"), "has a help text of several lines");
  return problems;
}
