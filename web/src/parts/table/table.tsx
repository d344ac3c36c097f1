/** The table of all pages: a short one, or a list of thousands of rows that the address sorts and filters. */

import type { UseQueryResult } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, ArrowUp } from "lucide-react";
import {
  type KeyboardEvent,
  memo,
  type ReactNode,
  useCallback,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import type { ApiRefusal } from "../../../../src/console/protocol.ts";
import type { StateWord } from "../../../../src/console/rows.ts";
import type { FitLevel } from "../../api/density.ts";
import { formatCount } from "../format.ts";
import { Failure, Skeleton } from "../notices.tsx";
import { FIT_WORDS, Fit, LEVELS_IN_ORDER, Score, State } from "../states.tsx";
import { ColumnChoice, useHiddenColumns } from "./column-choice.tsx";
import { type ListFilter, useFilter } from "./filters.tsx";
import { compareBy, sortRows } from "./sort-rows.ts";

export interface Column<R> {
  readonly id: string;
  readonly header: string;
  /** By which a list is sorted, and what is copied from it. */
  readonly value?: (row: R) => string | number | undefined;
  /** Copied instead of a value that only sorts. */
  readonly copied?: (row: R) => string;
  /** Defaults to the value. */
  readonly cell?: (row: R) => ReactNode;
  readonly isNumber?: boolean;
  /** Names its row for screen readers. */
  readonly isRowHeader?: boolean;
  /** In a list, a CSS grid track, such as `minmax(160px, 2fr)`. */
  readonly width?: string | undefined;
  /** In a list, left out on narrow screens. */
  readonly isWideOnly?: boolean;
  /** In a list, shown once the reader has chosen it. */
  readonly isOptional?: boolean;
  /** Its texts wrap in the width that the others leave. Those of a list are cut. */
  readonly isWide?: boolean;
}

/** Figures: sorted by the number, and shown as text. */
export function figure<R>(
  id: string,
  header: string,
  value: (row: R) => number | undefined,
  format: (value: number | undefined) => string = formatCount,
  width?: string,
): Column<R> {
  return { id, header, value, cell: (row) => format(value(row)), width, isNumber: true };
}

export function stateColumn<R extends { readonly state: StateWord }>(
  width?: string,
  header = "State",
): Column<R> {
  const cell = ({ state }: R) => <State state={state} />;
  return { id: "state", header, value: ({ state }) => state.word, cell, width };
}

export function namespaceColumn<R extends { readonly namespace: string }>(): Column<R> {
  return {
    id: "namespace",
    header: "Namespace",
    value: ({ namespace }) => namespace,
    cell: ({ namespace }) => <span className="muted">{namespace}</span>,
    width: "minmax(72px, 0.7fr)",
  };
}

const MAX_SCORE = 100;

/** Best first, and within a level by the score. */
export function fitColumn<R>(
  levelOf: (row: R) => FitLevel,
  scoreOf: (row: R) => number = () => 0,
): Column<R> {
  return {
    id: "level",
    header: "Fit",
    value: (row) => LEVELS_IN_ORDER.indexOf(levelOf(row)) * MAX_SCORE - scoreOf(row),
    copied: (row) => FIT_WORDS[levelOf(row)].word,
    cell: (row) => <Fit level={levelOf(row)} />,
    width: "minmax(108px, 0.8fr)",
  };
}

export function scoreColumn<R>(header: string, value: (row: R) => number): Column<R> {
  const cell = (row: R) => <Score value={value(row)} />;
  return { id: "score", header, value, cell, width: "minmax(96px, 1fr)" };
}

/** How the rows arrive. */
export interface Source {
  /** False until they have arrived once. */
  readonly isSynced: boolean;
  readonly refusal: Error | ApiRefusal | undefined;
  readonly onRetry?: () => void;
}

/** Rows that were read once stay, whatever a later request says. */
export function sourceOf({
  data,
  error,
  refetch,
}: Pick<UseQueryResult, "data" | "error" | "refetch">): Source {
  const isSynced = data !== undefined;
  const refusal = isSynced || error === null ? undefined : error;
  return { isSynced, refusal, onRetry: () => void refetch() };
}

export interface TableProps<R> {
  readonly label: string;
  readonly rows: readonly R[];
  readonly keyOf: (row: R) => string;
  readonly columns: readonly Column<R>[];
  /** Shown without rows. */
  readonly none: ReactNode;
  /** Absent for rows that are there. */
  readonly of?: Source;
  /** Absent for a short table, whose rows are all shown in their order. */
  readonly list?: ListOptions<R>;
}

interface ListOptions<R> {
  /** Names the stored choice of columns. */
  readonly id: string;
  /** As in the URL: a column's id, with a minus for descending. */
  readonly defaultSort: string;
  /** Path that a row opens. */
  readonly hrefOf?: (row: R) => string;
  readonly filter?: ListFilter<R>;
  /** What else the page filters by, and the fields for it. */
  readonly also?: (row: R) => boolean;
  readonly toolbar?: ReactNode;
}

const ROW_PX = 36;
const CARD_PX = 132;
const CARD_GAP_PX = 8;
/** As in tables.css. Below it, the columns do not fit. */
const CARDS = "(max-width: 820px)";
const NARROW = "(max-width: 1200px)";
const OVERSCAN = 8;

export function Table<R extends object>({ list, ...props }: TableProps<R>) {
  const { of: { isSynced, refusal, onRetry } = THERE, rows, none } = props;
  if (refusal !== undefined)
    return onRetry === undefined ? (
      <Failure error={refusal} />
    ) : (
      <Failure error={refusal} onRetry={onRetry} />
    );
  if (!isSynced) return <Skeleton />;
  if (rows.length === 0) return typeof none === "string" ? <p className="muted">{none}</p> : none;
  return list === undefined ? <Short {...props} /> : <List {...props} {...list} />;
}

const THERE: Source = { isSynced: true, refusal: undefined };

type ListProps<R> = Omit<TableProps<R>, "list" | "none" | "of"> & ListOptions<R>;

/** Sorted by the URL, virtual above some rows, cards on phones, a link in every row, columns that the reader chooses. */
function List<R extends object>(props: ListProps<R>) {
  const { id, columns, rows, keyOf, defaultSort, filter, also, toolbar } = props;
  const search = useSearch({ strict: false }) as { readonly sort?: string };
  const sort = search.sort ?? defaultSort;
  const hidden = useHiddenColumns(id, columns);
  const isNarrow = useMedia(NARROW);
  const shown = useMemo(
    () =>
      columns.filter(
        ({ id: column, isWideOnly = false }) => !hidden.ids.includes(column) && !(isNarrow && isWideOnly),
      ),
    [columns, hidden.ids, isNarrow],
  );
  const { found, bar } = useFilter(rows, filter, also);
  const sorted = useSorted({ rows: found, columns, sort, keyOf });
  return (
    <div className="stack">
      <div className="spread table-bar">
        <div className="row">
          {bar}
          {toolbar}
        </div>
        <ColumnChoice columns={columns} hidden={hidden} rows={sorted} />
      </div>
      <Grid {...props} columns={shown} rows={sorted} sort={sort} />
    </div>
  );
}

/** `keyOf` for rows of objects in namespaces. */
export function namespacedKey({
  namespace,
  name,
}: {
  readonly namespace: string;
  readonly name: string;
}): string {
  return `${namespace}/${name}`;
}

function useSorted<R>({
  rows,
  columns,
  sort,
  keyOf,
}: Pick<TableProps<R>, "rows" | "columns" | "keyOf"> & { readonly sort: string }): readonly R[] {
  const compare = useMemo(() => {
    const value = columns.find(({ id }) => id === sort.replace(/^-/, ""))?.value;
    return compareBy({ value, isDescending: sort.startsWith("-"), keyOf });
  }, [columns, sort, keyOf]);
  const last = useRef({ compare, sorted: [] as readonly R[] });
  return useMemo(() => {
    const sorted = sortRows(rows, last.current.compare === compare ? last.current.sorted : [], compare);
    last.current = { compare, sorted };
    return sorted;
  }, [rows, compare]);
}

function Grid<R extends object>({
  label,
  rows,
  keyOf,
  columns,
  hrefOf,
  sort,
}: ListProps<R> & { readonly sort: string }) {
  const list = useRef<HTMLDivElement>(null);
  const isPhone = useMedia(CARDS);
  const [offset, setOffset] = useState(0);
  useLayoutEffect(() => {
    const top = list.current?.getBoundingClientRect().top ?? 0;
    const frame = scroller();
    setOffset(top - (frame?.getBoundingClientRect().top ?? 0) + (frame?.scrollTop ?? 0));
  }, []);
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: scroller,
    estimateSize: () => (isPhone ? CARD_PX : ROW_PX),
    // The same function as before keeps the places of all rows.
    getItemKey: useCallback((index: number) => keyOf(rows[index] as R), [keyOf, rows]),
    overscan: OVERSCAN,
    gap: isPhone ? CARD_GAP_PX : 0,
    scrollMargin: offset,
  });
  // Measured heights of cards do not hold for rows, nor the other way round.
  // biome-ignore lint/correctness/useExhaustiveDependencies: after a change of the layout, not of the virtualizer
  useLayoutEffect(() => virtualizer.measure(), [isPhone]);
  const template = columns.map(({ width = "1fr" }) => width).join(" ");
  return (
    <div className="panel table" role="table" aria-label={label} aria-rowcount={rows.length + 1}>
      <Head columns={columns} sort={sort} template={template} />
      <div
        role="rowgroup"
        ref={list}
        className="table-body"
        style={{ height: virtualizer.getTotalSize() }}
        onKeyDown={moveByKeys}
      >
        {virtualizer.getVirtualItems().map(({ index, key, start }) => (
          <Row
            key={key}
            row={rows[index] as R}
            index={index}
            top={start - offset}
            columns={columns}
            template={template}
            hrefOf={hrefOf}
            measure={isPhone ? virtualizer.measureElement : undefined}
          />
        ))}
      </div>
      {rows.length === 0 && <p className="table-none muted">No rows match the filters.</p>}
    </div>
  );
}

interface RowProps<R> extends Pick<ListProps<R>, "columns" | "hrefOf"> {
  readonly row: R;
  readonly index: number;
  readonly top: number;
  readonly template: string;
  readonly measure: ((element: HTMLElement | null) => void) | undefined;
}

function RowOf<R>({ row, index, top, columns, template, hrefOf, measure }: RowProps<R>) {
  const cells = columns.map((column) => <Cell key={column.id} column={column} row={row} />);
  const common = {
    className: "table-row",
    "data-index": index,
    ref: measure,
    role: "row",
    "aria-rowindex": index + 2,
    style: { gridTemplateColumns: template, transform: `translateY(${top}px)` },
  } as const;
  if (hrefOf === undefined) return <div {...common}>{cells}</div>;
  return (
    <Link to={hrefOf(row) as "/"} {...common}>
      {cells}
    </Link>
  );
}

/** Rendered again only if its row or its place changed. */
const Row = memo(RowOf) as typeof RowOf;

/** The element that scrolls, in the frame. */
function scroller(): HTMLElement | null {
  return document.getElementById("content");
}

function Head<R>({
  columns,
  sort,
  template,
}: {
  readonly columns: readonly Column<R>[];
  readonly sort: string;
  readonly template: string;
}) {
  const navigate = useNavigate();
  const sortBy = (id: string): void => {
    const next = sort === id ? `-${id}` : id;
    void navigate({ to: ".", search: (before: object) => ({ ...before, sort: next }), replace: true });
  };
  return (
    <div role="rowgroup" className="table-head">
      <div role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
        {columns.map(({ id, header, isNumber }) => {
          const direction = sort === id ? "ascending" : sort === `-${id}` ? "descending" : "none";
          return (
            <div
              key={id}
              role="columnheader"
              tabIndex={-1}
              aria-sort={direction}
              className={isNumber === true ? "truncate cell cell-number" : "truncate cell"}
            >
              <button type="button" title={`Sort by ${header}`} onClick={() => sortBy(id)}>
                {header}
                {direction === "ascending" && <ArrowUp size={12} aria-hidden />}
                {direction === "descending" && <ArrowDown size={12} aria-hidden />}
              </button>
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Cell<R>({ column, row }: { readonly column: Column<R>; readonly row: R }) {
  return (
    <div
      role="cell"
      className={column.isNumber === true ? "truncate cell cell-number" : "truncate cell"}
      data-label={column.header}
    >
      {contentOf(column, row)}
    </div>
  );
}

/** j and k, or the arrows, go from row to row; Enter opens, as every link does. */
function moveByKeys(event: KeyboardEvent<HTMLDivElement>): void {
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  const row = (event.target as HTMLElement).closest<HTMLElement>("[data-index]");
  if (step === undefined || row === null || event.metaKey || event.ctrlKey) return;
  event.preventDefault();
  const next = Number(row.dataset.index) + step;
  event.currentTarget.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus();
}

export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useLayoutEffect(() => {
    const list = matchMedia(query);
    const change = () => setMatches(list.matches);
    list.addEventListener("change", change);
    return () => list.removeEventListener("change", change);
  }, [query]);
  return matches;
}

/** All rows, whose texts wrap; on phones a row becomes a block. */
function Short<R>({ label, rows, keyOf, columns }: Omit<TableProps<R>, "list" | "none" | "of">) {
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
              {columns.map((column) => {
                const { id, header, isNumber = false, isWide = false, isRowHeader = false } = column;
                const Cell = isRowHeader ? "th" : "td";
                return (
                  <Cell
                    key={id}
                    scope={isRowHeader ? "row" : undefined}
                    data-label={header}
                    className={classOf(isNumber, isWide)}
                  >
                    <div className="plain-value">{contentOf(column, row)}</div>
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

function contentOf<R>({ value, cell = value }: Column<R>, row: R): ReactNode {
  return cell?.(row);
}

function classOf(isNumber: boolean, isWide: boolean): string | undefined {
  if (isNumber) return "cell-number number";
  return isWide ? "plain-wide" : undefined;
}
