/** Text in columns. Pure. */

export type Row = readonly string[];

/** Every column as wide as its widest cell; no blanks at the ends of lines. */
export function alignColumns(rows: readonly Row[], gap = "  "): readonly string[] {
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
