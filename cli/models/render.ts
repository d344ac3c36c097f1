/** Stored models as tables. Pure. */

import { formatBytes } from "../../src/util/bytes.ts";
import { compareText } from "../../src/util/text.ts";
import { agoOf } from "../program/age.ts";
import { formatTable } from "../program/table.ts";

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

/** Sorted by host and source. The HOST column is omitted if no line has a host. */
export function renderModels(lines: readonly ModelLine[], nowMs: number): string {
  if (lines.length === 0) return "no models are stored";
  const hasHosts = lines.some(({ host }) => host !== undefined);
  const rows = sorted(lines).map((line) => [
    ...(hasHosts ? [line.host ?? ""] : []),
    line.source,
    line.sizeBytes === undefined ? "" : formatBytes(line.sizeBytes),
    agoOf(line.lastUsedAt, nowMs) ?? "",
    agoOf(line.verifiedAt, nowMs) ?? "",
    stateOf(line),
  ]);
  const titles = [...(hasHosts ? ["HOST"] : []), "MODEL", "SIZE", "LAST USED", "VERIFIED", "STATE"];
  return formatTable(titles, rows);
}

export function renderVerified(lines: readonly VerifiedLine[]): string {
  if (lines.length === 0) return "no models are stored";
  const rows = lines.map(({ source, file, sizeBytes, state }) => [
    state,
    formatBytes(sizeBytes),
    file,
    source,
  ]);
  return formatTable(["STATE", "SIZE", "FILE", "MODEL"], rows);
}

export function sorted<T extends ModelLine>(lines: readonly T[]): readonly T[] {
  const key = ({ host = "", source }: T) => `${host}\n${source}`;
  return lines.toSorted((a, b) => compareText(key(a), key(b)));
}

function stateOf({ inUse, pinned, damaged }: ModelLine): string {
  return [inUse && "in use", pinned && "pinned", damaged && "damaged"].filter(Boolean).join(", ");
}
