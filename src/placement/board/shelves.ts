/** Hosts by the room they have, one shelf per size of budget: the roomiest of a shelf is at its end. */
import type { Cell } from "./cell.ts";
import { compareText } from "./waiter.ts";

export interface Shelves {
  /** Each in order of {@link Cell.open}; where that is equal, names descend, so that the end has the first name. */
  readonly byBudget: Map<number, Cell[]>;
  /** By which key each cell was put in, to find it again after its sums changed. */
  readonly keys: Map<string, { readonly budget: number; readonly open: number }>;
}

export function newShelves(): Shelves {
  return { byBudget: new Map(), keys: new Map() };
}

/** Puts a cell where it belongs now. Only hosts that take something are on a shelf. */
export function shelve(shelves: Shelves, cell: Cell): void {
  const { budget } = cell.facts;
  const before = shelves.keys.get(cell.name);
  const belongs = budget.known && cell.refused === undefined;
  if (belongs && before?.budget === budget.bytes && before.open === cell.open) {
    replace(shelves, cell, before);
    return;
  }
  unshelve(shelves, cell.name);
  if (!belongs) return;
  const shelf = shelves.byBudget.get(budget.bytes) ?? [];
  shelves.byBudget.set(budget.bytes, shelf);
  shelf.splice(indexOf(shelf, cell.open, cell.name), 0, cell);
  shelves.keys.set(cell.name, { budget: budget.bytes, open: cell.open });
}

export function unshelve(shelves: Shelves, name: string): void {
  const key = shelves.keys.get(name);
  if (key === undefined) return;
  shelves.keys.delete(name);
  const shelf = shelves.byBudget.get(key.budget) ?? [];
  const at = find(shelves, shelf, key.open, name);
  if (at !== -1) shelf.splice(at, 1);
  if (shelf.length === 0) shelves.byBudget.delete(key.budget);
}

/** The first place whose cell has at least so much room. */
export function firstWithRoom(shelf: readonly Cell[], bytes: number): number {
  return bisect(shelf.length, (at) => (shelf[at]?.open ?? 0) < bytes);
}

function replace(shelves: Shelves, cell: Cell, key: { budget: number; open: number }): void {
  const shelf = shelves.byBudget.get(key.budget) ?? [];
  const at = find(shelves, shelf, key.open, cell.name);
  if (at !== -1) shelf[at] = cell;
}

/** Cells may have changed their sums since; the keys have not, and the shelf is in their order. */
function find(shelves: Shelves, shelf: readonly Cell[], open: number, name: string): number {
  const at = bisect(shelf.length, (index) => {
    const there = shelf[index]?.name ?? "";
    return isBefore(shelves.keys.get(there)?.open ?? open, there, open, name);
  });
  return shelf[at]?.name === name ? at : shelf.findIndex((cell) => cell.name === name);
}

function indexOf(shelf: readonly Cell[], open: number, name: string): number {
  return bisect(shelf.length, (index) => {
    const cell = shelf[index];
    return cell !== undefined && isBefore(cell.open, cell.name, open, name);
  });
}

function isBefore(openA: number, nameA: string, openB: number, nameB: string): boolean {
  return openA < openB || (openA === openB && compareText(nameA, nameB) > 0);
}

/** The first index that is not before. */
function bisect(length: number, isBefore: (index: number) => boolean): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}
