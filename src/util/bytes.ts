/** Formats sizes for people. */

const GIB = 1024 ** 3;
const MIB = 1024 ** 2;

/** "1.5 TiB", "41.2 GiB", "512 MiB": with at most one digit, and never "0 MiB" for a size above zero. */
export function formatBytes(bytes: number): string {
  if (Math.abs(bytes) >= 1024 * GIB) return `${trim(bytes / GIB / 1024)} TiB`;
  if (Math.abs(bytes) >= GIB) return `${trim(bytes / GIB)} GiB`;
  return bytes > 0 && bytes < MIB / 10 ? "0.1 MiB" : `${trim(bytes / MIB)} MiB`;
}

function trim(value: number): string {
  return value.toFixed(1).replace(/\.0$/, "");
}
