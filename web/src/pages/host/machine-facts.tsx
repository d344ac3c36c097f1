/** Facts that hosts and nodes have in common. */
import type { HostRow } from "../../../../src/console/rows.ts";
import type { Fact } from "../../parts/facts.tsx";
import { formatBytes, formatCount } from "../../parts/format.ts";
import { Tag } from "../../parts/state.tsx";
import { Ago } from "../../parts/time.tsx";
import { hostText } from "../../texts/host.ts";

const words = hostText.facts;

export function machineFacts(row: HostRow): readonly Fact[] {
  return [
    [words.chip, row.chip],
    [words.os, row.os],
    [words.memory, row.totalBytes === 0 ? undefined : formatBytes(row.totalBytes)],
    [words.cores, row.cores === 0 ? undefined : formatCount(row.cores)],
    [words.gpus, row.gpus === 0 ? undefined : formatCount(row.gpus)],
    [words.backend, row.backend],
    [words.engines, row.engines.length === 0 ? undefined : <Engines key="engines" row={row} />],
    [row.kind === "Host" ? words.agent : words.kubelet, row.agentVersion.replace(/^kubelet /, "")],
    [words.disk, diskOf(row)],
    [words.pressure, <Pressure key="pressure" row={row} />],
    [words.lastSeen, row.isStale ? <Stale key="stale" row={row} /> : words.reports],
    [words.fits, row.fits === undefined ? undefined : formatCount(row.fits)],
  ];
}

function Engines({ row: { engines } }: { readonly row: HostRow }) {
  return (
    <ul>
      {engines.map(({ name, version }) => (
        <li key={name}>
          {name} <span className="muted">{version}</span>
        </li>
      ))}
    </ul>
  );
}

function diskOf({ diskFreeBytes, diskTotalBytes }: HostRow): string | undefined {
  if (diskFreeBytes === undefined) return undefined;
  return words.diskFree(formatBytes(diskFreeBytes), formatBytes(diskTotalBytes));
}

function Pressure({ row: { pressure } }: { readonly row: HostRow }) {
  if (pressure === "Normal" || pressure === "Unknown") return <>{pressure}</>;
  return <Tag level={pressure === "Critical" ? "bad" : "warn"}>{pressure}</Tag>;
}

function Stale({ row: { lastSeen } }: { readonly row: HostRow }) {
  return (
    <span className="row">
      <Ago at={lastSeen} /> <Tag level="warn">Stale</Tag>
    </span>
  );
}
