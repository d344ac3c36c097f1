/** Bytes for people. */

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** For example "4.5 GiB". */
export function readableSize(bytes: number): string {
  const power = bytes < 1024 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${power === 0 ? value : value.toFixed(1)} ${UNITS[power]}`;
}
