/** Part of docs/selftest.md: every step, as the program has it. */
import { allSteps } from "../../cli/selftest/table.ts";

export function selftestLines(): string[] {
  const rows = allSteps().map(({ name, proves, platforms }) => {
    const on = platforms.length === 2 ? "both" : "macOS";
    return `| \`${name}\` | ${proves} | ${on} |`;
  });
  return ["| step | proves | on |", "|---|---|---|", ...rows, ""];
}
