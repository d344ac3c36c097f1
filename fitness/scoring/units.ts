/** Rounding and GiB. Pure. */

const GIB = 1024 ** 3;
/** Rounds half away from zero. */
export function round(value: number, digits: number): number {
  const factor = 10 ** digits;
  return (Math.sign(value) * Math.round(Math.abs(value) * factor)) / factor;
}

/** Maximum memory of a machine. */
const MAX_GIB = 64 * 1024;

/** GiB with two decimals; undefined for impossible sizes. */
export function gibOf(bytes: number | undefined): number | undefined {
  if (bytes === undefined || !(bytes >= 0) || bytes > MAX_GIB * GIB) return undefined;
  return round(bytes / GIB, 2);
}
