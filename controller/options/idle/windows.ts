/** Windows of spec.idle.keepWarm: which is open now, and when that changes. Pure. */
import type { KeepWarmWindow, Weekday } from "../../../src/api/inference-service/idle.ts";

/** Undefined `changesAtMs`: it never changes. `unknownZone`: the time zone of a window is unknown here, so it counts as open. */
export interface WindowState {
  readonly isOpen: boolean;
  readonly changesAtMs?: number | undefined;
  readonly unknownZone?: string;
}

interface Interval {
  readonly from: number;
  readonly to: number;
}

const DAY_MS = 24 * 60 * 60_000;
const MINUTE_MS = 60_000;
const DAYS: readonly Weekday[] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
/** Yesterday, whose window may still be open, until the same day of next week. */
const DAYS_AROUND = [-1, 0, 1, 2, 3, 4, 5, 6, 7];

export function windowState(windows: readonly KeepWarmWindow[], nowMs: number): WindowState {
  const intervals: Interval[] = [];
  for (const window of windows) {
    const { timeZone = "UTC" } = window;
    const zone = zoneOf(timeZone);
    if (zone === undefined) return { isOpen: true, unknownZone: timeZone };
    intervals.push(...intervalsOf(window, zone, nowMs));
  }
  const open = intervals.filter(({ from, to }) => from <= nowMs && nowMs < to);
  const changes = open.length > 0 ? open.map(({ to }) => to) : intervals.map(({ from }) => from);
  const later = changes.filter((at) => at > nowMs);
  const soonest = open.length > 0 ? Math.max(...later) : Math.min(...later);
  return { isOpen: open.length > 0, changesAtMs: later.length === 0 ? undefined : soonest };
}

/** The windows that start around now. */
function intervalsOf({ days, start, end }: KeepWarmWindow, zone: Zone, nowMs: number): Interval[] {
  const today = startOfDay(nowMs + zone.offsetMs(nowMs));
  const [from, to] = [minutesOf(start), minutesOf(end)];
  const lengthMs = (to > from ? to : to + 24 * 60) * MINUTE_MS;
  return DAYS_AROUND.map((day) => today + day * DAY_MS)
    .filter((day) => days === undefined || days.some((name) => name === DAYS[new Date(day).getUTCDay()]))
    .map((day) => ({ from: zone.instantOf(day + from * MINUTE_MS), to: zone.instantOf(day + lengthMs) }));
}

/** Local times are numbers as if they were UTC. */
interface Zone {
  readonly offsetMs: (atMs: number) => number;
  readonly instantOf: (localMs: number) => number;
}

function zoneOf(timeZone: string): Zone | undefined {
  const format = formatOf(timeZone);
  if (format === undefined) return undefined;
  const offsetMs = (atMs: number): number => {
    const parts = new Map(format.formatToParts(atMs).map(({ type, value }) => [type, Number(value)]));
    const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? 0;
    const local = Date.UTC(part("year"), part("month") - 1, part("day"), part("hour"), part("minute"));
    return local - Math.floor(atMs / MINUTE_MS) * MINUTE_MS;
  };
  // The second step corrects local times close to a change of the clocks.
  const instantOf = (localMs: number): number => localMs - offsetMs(localMs - offsetMs(localMs));
  return { offsetMs, instantOf };
}

/** The API server may know time zones that this program does not. */
function formatOf(timeZone: string): Intl.DateTimeFormat | undefined {
  try {
    return new Intl.DateTimeFormat("en-US", {
      timeZone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
    });
  } catch {
    return undefined;
  }
}

function minutesOf(time: string): number {
  const [hours = 0, minutes = 0] = time.split(":").map(Number);
  return hours * 60 + minutes;
}

function startOfDay(localMs: number): number {
  return Math.floor(localMs / DAY_MS) * DAY_MS;
}
