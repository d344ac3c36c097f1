/** The layout of a description: a head of fields, then titled sections. Pure. */
import { alignColumns, type Row } from "../program/table.ts";

export type Field = readonly [label: string, value: string | undefined];

export interface Section {
  readonly title: string;
  /** Indented below the title. A section without lines is omitted. */
  readonly lines: readonly string[];
}

const INDENT = "  ";

/** Fields without a value are omitted. */
export function fieldLines(fields: readonly Field[]): readonly string[] {
  return alignColumns(
    fields.flatMap(([label, value]) => (value === undefined || value === "" ? [] : [[`${label}:`, value]])),
  );
}

/** A table; empty if there are no rows. */
export function tableLines(titles: Row, rows: readonly Row[]): readonly string[] {
  return rows.length === 0 ? [] : alignColumns([titles, ...rows]);
}

export function renderSections(head: readonly string[], sections: readonly Section[]): string {
  const parts = sections
    .filter(({ lines }) => lines.length > 0)
    .map(({ title, lines }) => [title, ...lines.map((line) => `${INDENT}${line}`.trimEnd())]);
  return [[...head], ...parts].map((lines) => lines.join("\n")).join("\n\n");
}
