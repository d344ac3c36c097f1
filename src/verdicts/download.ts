/** Progress of downloads: their sum, and the words for it. Pure, and without other modules of the API at run time: the console's pages use it too. */
import { formatBytes } from "../util/bytes.ts";

export interface Download {
  readonly bytes: number;
  readonly totalBytes?: number | undefined;
  readonly bytesPerSecond?: number | undefined;
}

/** All downloads together: without a total while that of one of them is unknown, without a speed while none is. */
export function sumOfDownloads(all: readonly Download[]): Download | undefined {
  if (all.length === 0) return undefined;
  const sum = (of: (one: Download) => number | undefined) =>
    all.reduce((total, one) => total + (of(one) ?? 0), 0);
  const isSized = all.every(({ totalBytes = 0 }) => totalBytes > 0);
  return {
    bytes: sum(({ bytes }) => bytes),
    totalBytes: isSized ? sum(({ totalBytes }) => totalBytes) : undefined,
    bytesPerSecond: sum(({ bytesPerSecond }) => bytesPerSecond) || undefined,
  };
}

/** From 0 to 1; undefined while the total is unknown. */
export function shareOf({ bytes, totalBytes = 0 }: Download): number | undefined {
  return totalBytes > 0 ? Math.min(1, bytes / totalBytes) : undefined;
}

/** Undefined while the total or the speed is unknown. */
export function secondsLeft({ bytes, totalBytes = 0, bytesPerSecond = 0 }: Download): number | undefined {
  return totalBytes > 0 && bytesPerSecond > 0 ? Math.max(0, totalBytes - bytes) / bytesPerSecond : undefined;
}

/** "Downloading 62 %". Rounded down: 100 % is all of it. */
export function downloadWord(word: string, all: readonly Download[]): string {
  const sum = sumOfDownloads(all);
  const share = sum && shareOf(sum);
  return share === undefined ? word : `${word} ${Math.floor(share * 100)} %`;
}

/** "3 GiB of 10 GiB, 102.4 MiB/s", without the parts that are unknown. */
export function downloadText({ bytes, totalBytes = 0, bytesPerSecond = 0 }: Download): string {
  const total = totalBytes > 0 ? ` of ${formatBytes(totalBytes)}` : "";
  return `${formatBytes(bytes)}${total}${bytesPerSecond > 0 ? `, ${formatBytes(bytesPerSecond)}/s` : ""}`;
}
