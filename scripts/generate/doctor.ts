/** Part of docs/doctor.md: every check, as the program has it. */
import { defaultRemedy } from "../../src/api/errors.ts";
import type { Check } from "../../src/doctor/checks/check.ts";
import { checkGroups } from "../../src/doctor/table.ts";
import { escapeCell, markdownTable } from "./markdown.ts";

/** One table for each group. */
export function doctorLines(): string[] {
  return checkGroups.flatMap(([title, checks]) => [
    `### ${title}`,
    "",
    ...markdownTable(["code", "checks", "at worst", "on", "why", "what to do"], checks.map(row)),
    "",
  ]);
}

function row({ code, title, severity, platforms, reason, isFixable }: Check): string[] {
  const { summary, command } = defaultRemedy(code);
  const on = platforms.length === 2 ? "both" : platforms[0] === "darwin" ? "macOS" : "Linux";
  const fix = `${summary}${command === undefined ? "" : `: \`${command}\``}${isFixable ? " (`--fix`)" : ""}`;
  return [`\`${code}\``, title, severity, on, reason, fix].map(escapeCell);
}
