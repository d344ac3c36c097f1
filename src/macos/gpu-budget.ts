/** Metal's recommended maximum working set, recorded on real machines, for engines that do not report it. */

const GIB = 1024 ** 3;

/** Pairs of installed GiB and bytes (recorded in MB of 1e6 bytes). */
const recorded: readonly (readonly [number, number])[] = [
  [8, 5_726.6e6],
  [16, 11_453.25e6],
  [18, 14_302.25e6],
  [24, 19_069.67e6],
  [32, 26_800.6e6],
  [36, 30_150.67e6],
  [48, 40_200.9e6],
  [64, 55_662.79e6],
  [128, 115_448.73e6],
  [256, 239_000e6],
];

/** The operator's `iogpu.wired_limit_mb` (0 = none) takes precedence. Between recorded sizes, the ratio of the smaller machine applies. */
export function gpuBudgetFor(
  totalBytes: number | undefined,
  wiredLimitMb: number | undefined,
): number | undefined {
  if (wiredLimitMb !== undefined && wiredLimitMb > 0) return wiredLimitMb * 2 ** 20;
  if (totalBytes === undefined) return undefined;
  const below = recorded.findLast(([gib]) => gib * GIB <= totalBytes);
  if (below === undefined) return undefined;
  const [gib, bytes] = below;
  return Math.floor((totalBytes * bytes) / (gib * GIB));
}
