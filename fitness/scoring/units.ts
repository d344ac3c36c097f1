/** Sizes as people read them. Pure. */

const GIB = 1024 ** 3;
/** Half away from zero. */
export function round(value: number, digits: number): number {
  const factor = 10 ** digits;
  return (Math.sign(value) * Math.round(Math.abs(value) * factor)) / factor;
}

/** No machine has more. */
const MAX_GIB = 64 * 1024;

/** GiB with two decimals; undefined for what no machine has. */
export function gibOf(bytes: number | undefined): number | undefined {
  if (bytes === undefined || !(bytes >= 0) || bytes > MAX_GIB * GIB) return undefined;
  return round(bytes / GIB, 2);
}
