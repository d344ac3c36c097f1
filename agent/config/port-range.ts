/** Parses the ports for engines from the configuration file and the flag. Pure. */

export type PortRange = readonly [first: number, last: number];

export const PORT_RANGE_EXPECTED =
  "must be the first and the last port for engines, such as 21000-21999 or [21000, 21999]: each from 1 to 65535, the first not above the last";

const TEXT = /^\s*(?:(\d+)\s*-\s*(\d+)|\[\s*(\d+)\s*,\s*(\d+)\s*\])\s*$/;

/** Undefined for a value that is not a range of ports. */
export function parsePortRange(value: string | readonly [number, number]): PortRange | undefined {
  const [first = Number.NaN, last = Number.NaN] = typeof value === "string" ? portsIn(value) : value;
  const isRange = Number.isInteger(first) && Number.isInteger(last) && 1 <= first && first <= last;
  return isRange && last <= 65_535 ? [first, last] : undefined;
}

function portsIn(text: string): readonly number[] {
  const [, ...ports] = TEXT.exec(text) ?? [];
  return ports.filter((port) => port !== undefined).map(Number);
}
