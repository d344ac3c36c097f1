/** Memory of one machine as a bar, and a machine as a card: the same on every page. */

import { CircleHelp } from "lucide-react";
import type { ReactNode } from "react";
import type { ClaimRow, HostRow } from "../../../src/console/rows.ts";
import { hrefOfMachine, To } from "../address/to.tsx";
import { IconButton } from "./buttons.tsx";
import { formatBytes, HIDDEN_NAMESPACE } from "./format.ts";
import { freeBytesOf } from "./free-bytes.ts";
import { Empty } from "./notices.tsx";
import type { Fact } from "./page.tsx";
import { State, Tag } from "./states.tsx";

export interface MemoryBarProps {
  readonly host: Pick<
    HostRow,
    "name" | "budgetBytes" | "reserveBytes" | "leftBytes" | "claims" | "isCordoned"
  >;
  /** A claim that does not exist yet, such as the one of a deploy preview. */
  readonly added?: { readonly label: string; readonly bytes: number };
  /** Names under the bar: claimed of budget, and free. Default true. */
  readonly hasLegend?: boolean;
}

const HELP = [
  "Budget: the memory that engines may claim on the machine.",
  "Claim: what is set aside for one replica.",
  "In use (filled): the measured footprint of its engine.",
  "Reserve (hatched): kept free for the system, and not part of the budget.",
  "Free: what a new replica can claim now; less if other programs use the memory.",
  "Unused: the same on a cordoned or drained machine, which takes no new replica.",
].join("\n");
const SERIES = 6;
/** More segments than this cannot be distinguished: the smallest become one. */
const MAX_SEGMENTS = 24;

interface Segment {
  readonly key: string;
  readonly label: string;
  readonly bytes: number;
  readonly usedBytes: number;
  readonly color: string;
}

export function MemoryBar(props: MemoryBarProps) {
  const { host, added, hasLegend = true } = props;
  const { name, budgetBytes, reserveBytes, leftBytes, claims, isCordoned } = host;
  if (budgetBytes <= 0) return <span className="muted small">Budget unknown</span>;
  const segments = segmentsOf(claims);
  const claimedBytes = claims.reduce((sum, { bytes }) => sum + bytes, 0);
  const afterBytes = claimedBytes + (added?.bytes ?? 0);
  const usableBytes = Math.max(0, budgetBytes - reserveBytes);
  const trackBytes = Math.max(budgetBytes, afterBytes + reserveBytes);
  const share = (bytes: number) => `${(100 * bytes) / trackBytes}%`;
  const freeBytes = freeBytesOf({ budgetBytes, reserveBytes, leftBytes, claims }) - (added?.bytes ?? 0);
  return (
    <div className="stack gap-4 memory">
      <div
        className="memory-track"
        role="img"
        aria-label={`Memory of ${name}: ${formatBytes(afterBytes)} of ${formatBytes(usableBytes)} claimed`}
      >
        {segments.map(({ key, label, bytes, usedBytes, color }) => (
          <span key={key} className="memory-claim" style={{ width: share(bytes), color }} title={label}>
            <span style={{ width: `${bytes === 0 ? 0 : Math.min(100, (100 * usedBytes) / bytes)}%` }} />
          </span>
        ))}
        {added !== undefined && (
          <span
            className={freeBytes < 0 ? "memory-added memory-over" : "memory-added"}
            style={{ width: share(added.bytes) }}
            title={`${added.label}: ${formatBytes(added.bytes)}`}
          />
        )}
        {reserveBytes > 0 && (
          <span
            className="memory-reserve"
            style={{ width: share(reserveBytes) }}
            title={`Reserved for the system: ${formatBytes(reserveBytes)}`}
          />
        )}
      </div>
      {hasLegend && (
        <div className="spread small number">
          <span className="muted">{`${formatBytes(afterBytes)} of ${formatBytes(usableBytes)}`}</span>
          <span className={freeBytes < 0 ? "toned tone-bad" : undefined}>
            {freeBytes < 0
              ? `Over by ${formatBytes(-freeBytes)}`
              : `${formatBytes(freeBytes)} ${isCordoned ? "unused" : "free"}`}
          </span>
        </div>
      )}
    </div>
  );
}

/** What the figures of a bar mean, once on each page that has bars. */
export function MemoryHelp() {
  return (
    <IconButton label={HELP}>
      <CircleHelp size={14} aria-hidden />
    </IconButton>
  );
}

/** The color follows the service, so that its replicas look alike on all machines. */
function segmentsOf(claims: readonly ClaimRow[]): readonly Segment[] {
  const sorted = [...claims].sort((a, b) => b.bytes - a.bytes);
  const shown = sorted.slice(0, MAX_SEGMENTS);
  const rest = sorted.slice(MAX_SEGMENTS);
  const segments = shown.map((claim) => ({
    key: `${claim.service} ${claim.replica}`,
    label: labelOf(claim),
    bytes: claim.bytes,
    usedBytes: claim.usedBytes ?? 0,
    color: claim.service === "" ? "var(--idle)" : `var(--series-${seriesOf(claim.service)})`,
  }));
  if (rest.length === 0) return segments;
  const bytes = rest.reduce((sum, claim) => sum + claim.bytes, 0);
  const label = `${rest.length} more: ${formatBytes(bytes)}`;
  return [...segments, { key: "rest", label, bytes, usedBytes: 0, color: "var(--idle)" }];
}

function labelOf({ service, phase, bytes, usedBytes }: ClaimRow): string {
  const name = service === "" ? HIDDEN_NAMESPACE : `${service} (${phase})`;
  const measured = usedBytes === undefined ? "" : `, ${formatBytes(usedBytes)} in use`;
  return `${name}: ${formatBytes(bytes)}${measured}`;
}

/** Number of the series color of a name, 1 to 6. */
export function seriesOf(name: string): number {
  let sum = 0;
  for (let index = 0; index < name.length; index += 1) sum = (sum * 31 + name.charCodeAt(index)) >>> 0;
  return (sum % SERIES) + 1;
}

/** A reader who may not list hosts knows neither their state nor their pressure. */
export type CardMachine = MemoryBarProps["host"] &
  Pick<HostRow, "kind" | "isStale"> &
  Partial<Pick<HostRow, "state" | "pressure">>;

/** A machine as a card: its name and state, what it is, its memory and some facts. */
export function MachineCard({
  machine,
  about,
  facts,
  children,
}: {
  readonly machine: CardMachine;
  /** Empty texts are left out. */
  readonly about: readonly string[];
  readonly facts: readonly Fact[];
  readonly children?: ReactNode;
}) {
  return (
    <To path={hrefOfMachine(machine)} className="card stack gap-8 machine-card">
      <div className="spread">
        <h2 className="truncate">{machine.name}</h2>
        {machine.state !== undefined && <State state={machine.state} />}
      </div>
      <p className="muted small">{about.filter(Boolean).join(" · ")}</p>
      <MemoryBar host={machine} />
      <dl className="machine-card-facts small">
        {facts.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd className="truncate">{value}</dd>
          </div>
        ))}
      </dl>
      <Marks machine={machine} />
      {children}
    </To>
  );
}

/** What the state does not say. */
function Marks({ machine: { isCordoned, isStale, pressure, state } }: { readonly machine: CardMachine }) {
  const isPressed = pressure === "Warning" || pressure === "Critical";
  const hasStale = isStale && state?.level !== "bad";
  const hasCordoned = isCordoned && state?.level !== "idle";
  if (!hasCordoned && !hasStale && !isPressed) return null;
  return (
    <div className="row">
      {hasStale && <Tag level="warn">Stale</Tag>}
      {hasCordoned && <Tag>Cordoned</Tag>}
      {isPressed && (
        <Tag level={pressure === "Critical" ? "bad" : "warn"}>{`Memory pressure: ${pressure}`}</Tag>
      )}
    </div>
  );
}

export function NoMachines({ why }: { readonly why: string }) {
  const command = "metalbridge host add mini-1 --address 192.168.1.21";
  return <Empty title="No machines yet" why={why} command={command} />;
}
