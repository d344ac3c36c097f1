/** Reads files of /proc and /etc. Pure. */
import type { Pressure } from "../host-reader.ts";

/** `/proc/meminfo` in bytes. */
export function parseMeminfo(text: string): ReadonlyMap<string, number> {
  const values = new Map<string, number>();
  for (const line of text.split("\n")) {
    const match = /^(\w+(?:\(\w+\))?):\s+(\d+) kB$/.exec(line);
    if (match?.[1] !== undefined) values.set(match[1], Number(match[2]) * 1024);
  }
  return values;
}

/** `/proc/PID/status`: what is resident or swapped out, in bytes; undefined for a zombie, which has neither. */
export function parseFootprint(text: string | undefined): number | undefined {
  const values = parseMeminfo((text ?? "").replaceAll("\t", " "));
  const resident = values.get("VmRSS");
  return resident === undefined ? undefined : resident + (values.get("VmSwap") ?? 0);
}

/** `/proc/pressure/memory`: stalls of the last ten seconds, in percent of the time. */
export function pressureFromPsi(text: string | undefined): Pressure {
  const some = average("some", text);
  const full = average("full", text);
  if (some === undefined || full === undefined) return "Unknown";
  if (full >= 20) return "Critical";
  return some >= 20 ? "Warning" : "Normal";
}

function average(kind: string, text: string | undefined): number | undefined {
  const found = new RegExp(`^${kind} avg10=(\\d+\\.\\d+)`, "m").exec(text ?? "")?.[1];
  return found === undefined ? undefined : Number(found);
}

/** PRETTY_NAME of `/etc/os-release`. */
export function parseOsRelease(text: string | undefined): string | undefined {
  return /^PRETTY_NAME="?([^"\n]+)"?$/m.exec(text ?? "")?.[1];
}
