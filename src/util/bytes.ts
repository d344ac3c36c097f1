/** Formats sizes for people. */

const GIB = 1024 ** 3;
const MIB = 1024 ** 2;

/** "41.2 GiB", "512 MiB": with one digit, and never "0 MiB" for a size above zero. */
export function formatBytes(bytes: number): string {
  if (Math.abs(bytes) >= GIB) return `${trim(bytes / GIB)} GiB`;
  return bytes > 0 && bytes < MIB / 10 ? "0.1 MiB" : `${trim(bytes / MIB)} MiB`;
}

function trim(value: number): string {
  return value.toFixed(1).replace(/\.0$/, "");
}
