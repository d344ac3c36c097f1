/** Parses files of /proc and /etc. Pure. */
import type { Pressure } from "../../../src/macos/host-reader.ts";
import type { GroupMemory } from "./cgroup.ts";

/** `/proc/meminfo` in bytes. */
export function parseMeminfo(text: string): ReadonlyMap<string, number> {
  const values = new Map<string, number>();
  for (const line of text.split("\n")) {
    const match = /^(\w+(?:\(\w+\))?):\s+(\d+) kB$/.exec(line);
    if (match?.[1] !== undefined) values.set(match[1], Number(match[2]) * 1024);
  }
  return values;
}

/** Resident and swapped-out bytes from `/proc/PID/status`; undefined for a zombie, which has neither. */
export function parseFootprint(text: string | undefined): number | undefined {
  const values = parseMeminfo((text ?? "").replaceAll("\t", " "));
  const resident = values.get("VmRSS");
  return resident === undefined ? undefined : resident + (values.get("VmSwap") ?? 0);
}

/** The level from `/proc/pressure/memory`: stalls of the last ten seconds, in percent of the time. */
export function pressureFromPsi(text: string | undefined): Pressure {
  const some = average("some", text);
  const full = average("full", text);
  if (some === undefined || full === undefined) return "Unknown";
  if (full >= 20) return "Critical";
  return some >= 20 ? "Warning" : "Normal";
}

/** Below these shares of memory the kernel is about to OOM-kill a process, possibly without stalls before it. */
const WARNING_SHARE = 0.1;
const CRITICAL_SHARE = 0.05;

/** The level from the available memory: without swap, memory runs out before any process stalls. */
export function pressureFromShare(
  availableBytes: number | undefined,
  totalBytes: number | undefined,
): Pressure {
  if (availableBytes === undefined || totalBytes === undefined || totalBytes === 0) return "Unknown";
  const share = availableBytes / totalBytes;
  if (share < CRITICAL_SHARE) return "Critical";
  return share < WARNING_SHARE ? "Warning" : "Normal";
}

const SEVERITY: Readonly<Record<Pressure, number>> = { Unknown: 0, Normal: 1, Warning: 2, Critical: 3 };

/** The worse of two levels; if one is unknown, the other one. */
export function worsePressure(a: Pressure, b: Pressure): Pressure {
  return SEVERITY[a] >= SEVERITY[b] ? a : b;
}

/** A machine within a limit is only as large as that limit. */
export function withinGroup(
  machine: { readonly totalBytes: number | undefined; readonly availableBytes: number | undefined },
  group: GroupMemory | undefined,
): { readonly totalBytes: number | undefined; readonly availableBytes: number | undefined } {
  if (group === undefined) return machine;
  const freeBytes = Math.max(0, group.limitBytes - group.usedBytes + group.reclaimableBytes);
  return {
    totalBytes: group.limitBytes,
    availableBytes: Math.min(freeBytes, machine.availableBytes ?? freeBytes),
  };
}

function average(kind: string, text: string | undefined): number | undefined {
  const found = new RegExp(`^${kind} avg10=(\\d+\\.\\d+)`, "m").exec(text ?? "")?.[1];
  return found === undefined ? undefined : Number(found);
}

/** PRETTY_NAME of `/etc/os-release`. */
export function parseOsRelease(text: string | undefined): string | undefined {
  return /^PRETTY_NAME="?([^"\n]+)"?$/m.exec(text ?? "")?.[1];
}
