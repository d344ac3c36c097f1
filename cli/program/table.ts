/** Text in columns. Pure. */
import { stripVTControlCharacters } from "node:util";
import { terminalText } from "../../src/util/terminal-text.ts";

export type Row = readonly string[];

/** Every column as wide as its widest cell; no blanks at the ends of lines. Cells become printable. */
export function alignColumns(cells: readonly Row[], gap = "  "): readonly string[] {
  const rows = cells.map((row) => row.map(printable));
  const columns = Math.max(0, ...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join(gap)
      .trimEnd(),
  );
}

/** One line without what a terminal would obey: messages and logs hold what engines and models put there. */
export function printable(text: string): string {
  const line = stripVTControlCharacters(text)
    .replaceAll(/\s*\n\s*/g, " ")
    .replaceAll("\t", "  ")
    .replaceAll(/\p{Cc}/gu, "");
  return terminalText(line);
}
