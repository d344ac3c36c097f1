/** Which columns a table shows, remembered in the browser, and the rows as text to paste into a spreadsheet. */
import { Check, Columns3, Copy } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import { useState } from "react";
import { IconButton } from "../buttons.tsx";

interface NamedColumn<R> {
  readonly id: string;
  readonly header: string;
  readonly value?: (row: R) => string | number | undefined;
  readonly copied?: (row: R) => string;
}

export interface HiddenColumns {
  readonly ids: readonly string[];
  readonly toggle: (id: string) => void;
}

const STORAGE = "metalbridge.columns.";

/** All tables show all columns again. */
export function resetColumns(): void {
  for (const key of Object.keys(localStorage)) if (key.startsWith(STORAGE)) localStorage.removeItem(key);
}

/** Until the reader chooses, the optional ones are hidden. */
export function useHiddenColumns(
  table: string,
  columns: readonly { readonly id: string; readonly isOptional?: boolean }[],
): HiddenColumns {
  const storageKey = `${STORAGE}${table}`;
  const [ids, setIds] = useState(
    () => readIds(storageKey) ?? columns.filter(({ isOptional = false }) => isOptional).map(({ id }) => id),
  );
  const toggle = (id: string): void => {
    const next = ids.includes(id) ? ids.filter((one) => one !== id) : [...ids, id];
    setIds(next);
    localStorage.setItem(storageKey, JSON.stringify(next));
  };
  return { ids, toggle };
}

function readIds(storageKey: string): readonly string[] | undefined {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(storageKey) ?? "null");
    return Array.isArray(stored) ? stored.filter((id) => typeof id === "string") : undefined;
  } catch {
    return undefined;
  }
}

export function ColumnChoice<R>({
  columns,
  hidden,
  rows,
}: {
  readonly columns: readonly NamedColumn<R>[];
  readonly hidden: HiddenColumns;
  readonly rows: readonly R[];
}) {
  const shown = columns.filter(({ id }) => !hidden.ids.includes(id));
  const copy = () => navigator.clipboard.writeText(tsvOf(shown, rows));
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger asChild>
        <IconButton label="Columns">
          <Columns3 size={16} aria-hidden />
        </IconButton>
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align="end" sideOffset={4}>
          {columns.slice(1).map(({ id, header }) => (
            <DropdownMenu.CheckboxItem
              key={id}
              className="menu-item"
              checked={!hidden.ids.includes(id)}
              onCheckedChange={() => hidden.toggle(id)}
              onSelect={(event) => event.preventDefault()}
            >
              <span className="menu-check">
                <DropdownMenu.ItemIndicator>
                  <Check size={14} aria-hidden />
                </DropdownMenu.ItemIndicator>
              </span>
              {header}
            </DropdownMenu.CheckboxItem>
          ))}
          <DropdownMenu.Separator className="menu-line" />
          <DropdownMenu.Item className="menu-item" onSelect={() => void copy()}>
            <span className="menu-check">
              <Copy size={14} aria-hidden />
            </span>
            Copy as TSV
          </DropdownMenu.Item>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

function tsvOf<R>(columns: readonly NamedColumn<R>[], rows: readonly R[]): string {
  const clean = (value: string | number | undefined) => String(value ?? "").replaceAll(/[\t\r\n]+/g, " ");
  const lines = [
    columns.map(({ header }) => header),
    ...rows.map((row) => columns.map(({ value, copied = value }) => clean(copied?.(row)))),
  ];
  return lines.map((cells) => cells.join("\t")).join("\n");
}
