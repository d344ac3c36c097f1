/** Figures as text. The same units everywhere: GiB with at most one decimal, tokens/s with at most three digits. */
import type { ServiceRow } from "../../../src/console/rows.ts";
import { formatBytes as sizeText } from "../../../src/util/bytes.ts";

export const GIB = 1_024 ** 3;
const MINUTE_S = 60;
const HOUR_S = 3_600;
const DAY_S = 86_400;

/** As in messages of the controller and in the CLI. */
export function formatBytes(bytes: number | undefined): string {
  return bytes === undefined || !Number.isFinite(bytes) ? "–" : sizeText(bytes);
}

/** At most three digits: 8.25, 41.3, 182. */
export function formatRate(perSecond: number | undefined): string {
  if (perSecond === undefined || !Number.isFinite(perSecond)) return "–";
  if (perSecond >= 1_000_000) return `${formatRate(perSecond / 1_000_000)} M`;
  if (perSecond >= 1_000) return `${formatRate(perSecond / 1_000)} k`;
  if (perSecond >= 100) return perSecond.toFixed(0);
  return perSecond >= 10 ? trimZero(perSecond.toFixed(1)) : trimZero(perSecond.toFixed(2));
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

export function cutReason({ why }: NonNullable<ServiceRow["contextCut"]>): string {
  return why === "" ? "the engine serves a shorter context than spec.contextSize asks for" : why;
}

/** 1 replica, 2 replicas. */
export function plural(count: number, what: string): string {
  return `${counts.format(count)} ${what}${count === 1 ? "" : "s"}`;
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

/** Instead of the name of a service that the reader may not see. */
export const HIDDEN_NAMESPACE = "A namespace that you may not see";
