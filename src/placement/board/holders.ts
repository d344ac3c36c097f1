/** Which hosts hold which weights, and how fast they are with them: the fastest first. */
import type { HostModel, StoredWeights } from "../types.ts";
import type { Cell } from "./cell.ts";

export interface Holders {
  /** By tokens per second, falling. */
  readonly measured: { readonly cell: Cell; readonly speed: number }[];
  readonly speeds: Map<Cell, number>;
  readonly unmeasured: Set<Cell>;
}

const NOBODY: Holders = { measured: [], speeds: new Map(), unmeasured: new Set() };

/** Those with the source, where speeds are known too, and those with the same file from elsewhere. */
export function holdersOf(
  holders: ReadonlyMap<string, Holders>,
  { source, sha256 }: StoredWeights,
): { readonly bySource: Holders; readonly bySha: Holders } {
  return {
    bySource: holders.get(source) ?? NOBODY,
    bySha: (sha256 === undefined ? undefined : holders.get(sha256)) ?? NOBODY,
  };
}

/** The most tokens per second that any host was measured at; 0 where none was. */
export function fastestOf({ measured }: Holders): number {
  return measured[0]?.speed ?? 0;
}

/** Only what differs is touched: a host with twenty models gets its twenty-first. */
export function noteModels(
  holders: Map<string, Holders>,
  cell: Cell,
  before: readonly HostModel[],
  after: readonly HostModel[],
): void {
  const kept = new Set(before.filter((one) => after.some((other) => isSame(one, other))));
  for (const model of before) if (!kept.has(model)) forget(holders, cell, model);
  for (const model of after) if (![...kept].some((one) => isSame(one, model))) remember(holders, cell, model);
}

function isSame(a: HostModel, b: HostModel): boolean {
  return a.source === b.source && a.sha256 === b.sha256 && a.tokensPerSecond === b.tokensPerSecond;
}

function remember(holders: Map<string, Holders>, cell: Cell, model: HostModel): void {
  const { source, sha256, tokensPerSecond: speed } = model;
  const bySource = entry(holders, source);
  if (speed === undefined) {
    bySource.unmeasured.add(cell);
  } else {
    bySource.measured.splice(placeOf(bySource, speed), 0, { cell, speed });
    bySource.speeds.set(cell, speed);
  }
  if (sha256 !== undefined) entry(holders, sha256).unmeasured.add(cell);
}

function forget(holders: Map<string, Holders>, cell: Cell, { source, sha256 }: HostModel): void {
  for (const key of sha256 === undefined ? [source] : [source, sha256]) {
    const known = holders.get(key);
    if (known === undefined) continue;
    known.unmeasured.delete(cell);
    if (known.speeds.delete(cell)) {
      const at = known.measured.findIndex((one) => one.cell === cell);
      known.measured.splice(at, 1);
    }
    if (known.unmeasured.size === 0 && known.measured.length === 0) holders.delete(key);
  }
}

function entry(holders: Map<string, Holders>, key: string): Holders {
  const known = holders.get(key) ?? {
    measured: [],
    speeds: new Map<Cell, number>(),
    unmeasured: new Set<Cell>(),
  };
  holders.set(key, known);
  return known;
}

/** Before the first that is slower. */
function placeOf({ measured }: Holders, speed: number): number {
  let low = 0;
  let high = measured.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((measured[middle]?.speed ?? 0) >= speed) low = middle + 1;
    else high = middle;
  }
  return low;
}
