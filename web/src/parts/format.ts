/** Figures as text. The same units everywhere: GiB with one decimal, tokens/s with at most three digits. */
import type { ServiceRow } from "../../../src/console/rows.ts";

export const GIB = 1_024 ** 3;
const MIB = 1_024 ** 2;
const MINUTE_S = 60;
const HOUR_S = 3_600;
const DAY_S = 86_400;

export function formatBytes(bytes: number | undefined): string {
  if (bytes === undefined || !Number.isFinite(bytes)) return "–";
  if (Math.abs(bytes) >= 1_024 * GIB) return `${(bytes / GIB / 1_024).toFixed(1)} TiB`;
  if (Math.abs(bytes) >= 0.1 * GIB) return `${(bytes / GIB).toFixed(1)} GiB`;
  return bytes === 0 ? "0 GiB" : `${Math.max(1, Math.round(bytes / MIB))} MiB`;
}

/** At most three digits: 8.25, 41.3, 182. */
export function formatRate(perSecond: number | undefined): string {
  if (perSecond === undefined || !Number.isFinite(perSecond)) return "–";
  if (perSecond >= 1_000_000) return `${formatRate(perSecond / 1_000_000)} M`;
  if (perSecond >= 1_000) return `${formatRate(perSecond / 1_000)} k`;
  if (perSecond >= 100) return perSecond.toFixed(0);
  return perSecond >= 10 ? trimZero(perSecond.toFixed(1)) : trimZero(perSecond.toFixed(2));
}

/** Bytes per second as people know it from downloads. */
export function formatSpeed(bytesPerSecond: number): string {
  return `${formatRate(bytesPerSecond / 1_000_000)} MB/s`;
}

const counts = new Intl.NumberFormat("en-US");

/** The density API has memory in GiB. */
export function formatGib(gib: number | undefined): string {
  return formatBytes(gib === undefined ? undefined : gib * GIB);
}

export function formatCount(count: number | undefined): string {
  return count === undefined ? "–" : counts.format(count);
}

/** A context that is cut: 4,096 of 8,192. */
export function formatCut({ served, asked }: NonNullable<ServiceRow["contextCut"]>): string {
  return `${formatCount(served)} of ${formatCount(asked)}`;
}

export function formatPercent(part: number): string {
  return `${Math.round(part * 100)} %`;
}

/** 4 s, 3 min, 2 h 5 min, 4 d. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < MINUTE_S) return `${seconds} s`;
  if (seconds < HOUR_S) return `${Math.floor(seconds / MINUTE_S)} min`;
  if (seconds < DAY_S) {
    const minutes = Math.floor((seconds % HOUR_S) / MINUTE_S);
    return `${Math.floor(seconds / HOUR_S)} h${minutes === 0 ? "" : ` ${minutes} min`}`;
  }
  return `${Math.floor(seconds / DAY_S)} d`;
}

function trimZero(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
