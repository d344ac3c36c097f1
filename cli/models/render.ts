/** Stored models as tables. Pure. */
import { formatBytes } from "../../src/util/bytes.ts";
import { ageOf } from "../program/age.ts";
import { alignColumns } from "../program/table.ts";

/** One model of one host. */
export interface ModelLine {
  readonly host?: string;
  readonly source: string;
  readonly sizeBytes?: number | undefined;
  readonly lastUsedAt?: string | undefined;
  readonly verifiedAt?: string | undefined;
  readonly inUse?: boolean | undefined;
  readonly pinned?: boolean | undefined;
  readonly damaged?: boolean | undefined;
}

export interface VerifiedLine {
  readonly source: string;
  readonly file: string;
  readonly sizeBytes: number;
  readonly state: string;
}

/** By host and source; the column of hosts only where lines name one. */
export function renderModels(lines: readonly ModelLine[], nowMs: number): string {
  if (lines.length === 0) return "no models are stored";
  const hasHosts = lines.some(({ host }) => host !== undefined);
  const rows = sorted(lines).map((line) => [
    ...(hasHosts ? [line.host ?? ""] : []),
    line.source,
    line.sizeBytes === undefined ? "" : formatBytes(line.sizeBytes),
    ago(line.lastUsedAt, nowMs),
    ago(line.verifiedAt, nowMs),
    stateOf(line),
  ]);
  const titles = [...(hasHosts ? ["HOST"] : []), "MODEL", "SIZE", "LAST USED", "VERIFIED", "STATE"];
  return alignColumns([titles, ...rows]).join("\n");
}

export function renderVerified(lines: readonly VerifiedLine[]): string {
  if (lines.length === 0) return "no models are stored";
  const rows = lines.map(({ source, file, sizeBytes, state }) => [
    state,
    formatBytes(sizeBytes),
    file,
    source,
  ]);
  return alignColumns([["STATE", "SIZE", "FILE", "MODEL"], ...rows]).join("\n");
}

export function sorted<T extends ModelLine>(lines: readonly T[]): readonly T[] {
  const key = ({ host = "", source }: T) => `${host}\n${source}`;
  return [...lines].sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

function stateOf({ inUse, pinned, damaged }: ModelLine): string {
  const words = [
    inUse === true ? "in use" : "",
    pinned === true ? "pinned" : "",
    damaged === true ? "damaged" : "",
  ];
  return words.filter((word) => word !== "").join(", ");
}

/** `lastUsedAt` is rounded to the hour. */
function ago(timestamp: string | undefined, nowMs: number): string {
  const age = ageOf(timestamp, nowMs);
  return age === undefined ? "" : `${age} ago`;
}
