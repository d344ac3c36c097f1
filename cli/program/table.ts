/** Text in columns. Pure. */
import { stripVTControlCharacters } from "node:util";
import { terminalText } from "../../src/util/terminal-text.ts";

export type Row = readonly string[];

/** A header and rows in columns, as one text. */
export function formatTable(titles: Row, rows: readonly Row[]): string {
  return alignColumns([titles, ...rows]).join("\n");
}

/** Makes every column as wide as its widest cell, without trailing blanks. Cells are made printable. */
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

/** One line without terminal control sequences: messages and logs may contain text from engines and models. */
export function printable(text: string): string {
  const line = stripVTControlCharacters(text)
    .replaceAll(/\s*\n\s*/g, " ")
    .replaceAll("\t", "  ")
    .replaceAll(/\p{Cc}/gu, "");
  return terminalText(line);
}
