/** The facts of a host or a node. */
import type { HostRow } from "../../../../src/console/rows.ts";
import type { Fact } from "../../parts/facts.tsx";
import { formatBytes, formatCount } from "../../parts/format.ts";
import { Tag } from "../../parts/state.tsx";
import { Ago } from "../../parts/time.tsx";
import type { Machine } from "./running.ts";

const LABEL_DEVICE_CLASS = "metalbridge.dev/device-class";

export function machineFacts(row: HostRow, machine: Machine): readonly Fact[] {
  const { metadata } = machine.object;
  const host = machine.kind === "Host" ? machine.object : undefined;
  const bootTime = host?.status?.info?.bootTime;
  return [
    ["Chip", row.chip],
    ["Operating system", row.os],
    ["Memory", row.totalBytes === 0 ? undefined : formatBytes(row.totalBytes)],
    ["CPU cores", row.cores === 0 ? undefined : formatCount(row.cores)],
    ["GPUs", row.gpus === 0 ? undefined : formatCount(row.gpus)],
    ["Backend", row.backend],
    ["Engines", row.engines.length === 0 ? undefined : <Engines key="engines" row={row} />],
    [row.kind === "Host" ? "Agent" : "Kubelet", row.agentVersion.replace(/^kubelet /, "")],
    ["Disk", diskOf(row)],
    ["Memory pressure", <Pressure key="pressure" row={row} />],
    ["Last seen", row.isStale ? <Stale key="stale" row={row} /> : "now"],
    ["Models that fit", row.fits === undefined ? undefined : formatCount(row.fits)],
    ["Address", host === undefined ? row.address : host.status?.addresses?.join(", ")],
    ["Device class", host?.metadata.labels?.[LABEL_DEVICE_CLASS]],
    ["Last boot", bootTime === undefined ? undefined : <Ago key="boot" at={bootTime} />],
    ["Created", <Ago key="created" at={metadata.creationTimestamp} />],
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
  return `${formatBytes(diskFreeBytes)} free of ${formatBytes(diskTotalBytes)}`;
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
