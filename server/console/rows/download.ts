/** Progress of downloads as a word. Pure. */

interface Progress {
  readonly bytes: number;
  readonly totalBytes?: number | undefined;
}

/** "Downloading 62 %", of all downloads together; without the number if a total is unknown. */
export function downloadWord(downloads: readonly Progress[]): string {
  const isKnown = downloads.length > 0 && downloads.every(({ totalBytes }) => (totalBytes ?? 0) > 0);
  if (!isKnown) return "Downloading";
  const bytes = downloads.reduce((sum, one) => sum + one.bytes, 0);
  const total = downloads.reduce((sum, { totalBytes = 0 }) => sum + totalBytes, 0);
  return `Downloading ${Math.min(100, Math.floor((bytes / total) * 100))} %`;
}
