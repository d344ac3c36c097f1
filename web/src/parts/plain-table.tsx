/** A small table whose texts wrap; on phones a row becomes a block. For many rows there is DataTable. */
import type { ReactNode } from "react";

export interface PlainColumn<R> {
  readonly id: string;
  readonly header: string;
  readonly cell: (row: R) => ReactNode;
  readonly isNumber?: boolean;
  /** Names its row for screen readers. */
  readonly isRowHeader?: boolean;
  /** Takes the width that the others leave. */
  readonly isWide?: boolean;
}

export function PlainTable<R>({
  label,
  rows,
  keyOf,
  columns,
  none,
}: {
  readonly label: string;
  readonly rows: readonly R[];
  readonly keyOf: (row: R) => string;
  readonly columns: readonly PlainColumn<R>[];
  /** Shown without rows. */
  readonly none: string;
}) {
  if (rows.length === 0) return <p className="muted">{none}</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by the keyboard
    <section className="panel plain-table" aria-label={label} tabIndex={0}>
      <table aria-label={label}>
        <thead>
          <tr>
            {columns.map(({ id, header, isNumber }) => (
              <th key={id} scope="col" className={isNumber === true ? "cell-number" : undefined}>
                {header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ id, header, cell, isNumber = false, isWide = false, isRowHeader = false }) => {
                const Cell = isRowHeader ? "th" : "td";
                return (
                  <Cell
                    key={id}
                    scope={isRowHeader ? "row" : undefined}
                    data-label={header}
                    className={classOf(isNumber, isWide)}
                  >
                    <div className="plain-value">{cell(row)}</div>
                  </Cell>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function classOf(isNumber: boolean, isWide: boolean): string | undefined {
  if (isNumber) return "cell-number number";
  return isWide ? "plain-wide" : undefined;
}
