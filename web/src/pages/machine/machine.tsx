/** The page of one machine: a host, or a node of the cluster. */

import { useParams } from "@tanstack/react-router";
import type { ClaimRow, HostRow } from "../../../../src/console/rows.ts";
import { useList, useObjects } from "../../live/hooks.ts";
import { formatBytes, formatCount } from "../../parts/format.ts";
import { MemoryBar, MemoryHelp, seriesOf } from "../../parts/machines.tsx";
import { AttentionNotice, Failure } from "../../parts/notices.tsx";
import { AbsentPage, type Fact, Facts, Page, Section } from "../../parts/page.tsx";
import { CordonNotice, DrainNotice, MachineButtons, useMachineChange } from "./actions.tsx";
import type { Machine } from "./running.ts";
import { MachineTabs } from "./tabs.tsx";
import "./machine.css";
import { ServiceLink } from "../../parts/objects/objects.tsx";
import { Ago, State, Tag } from "../../parts/states.tsx";
import { type Column, Table } from "../../parts/table/table.tsx";

export function HostPage() {
  return <MachinePage kind="Host" />;
}

export function NodePage() {
  return <MachinePage kind="Node" />;
}

function MachinePage({ kind }: { readonly kind: Machine["kind"] }) {
  const { name = "" } = useParams({ strict: false });
  const key = kind === "Host" ? "host" : "node";
  const topic = useObjects(`${key}/${name}`);
  const row = useList("hosts").rows.find((one) => one.kind === kind && one.name === name);
  const object = topic.get(key) as Machine["object"] | undefined;
  const change = useMachineChange(kind, name);
  if (object === undefined) return <AbsentPage name={name} what="Machine" of={topic} />;
  const running = topic.rows.filter((one) => one !== object) as Machine["running"];
  const machine = { kind, object, running } as Machine;
  const isDrained = machine.kind === "Host" && machine.object.spec?.drain === true;
  return (
    <Page
      title={name}
      subtitle={row !== undefined && <Subtitle row={row} />}
      actions={<MachineButtons machine={machine} change={change} />}
      isWide
    >
      {change.error !== null && <Failure error={change.error} />}
      {machine.kind === "Host" && isDrained && (
        <DrainNotice host={machine.object} replicas={machine.running} />
      )}
      {!isDrained && machine.object.spec?.unschedulable === true && <CordonNotice machine={machine} />}
      {!isDrained && row?.attention !== undefined && <AttentionNotice attention={row.attention} />}
      {row !== undefined && <Facts facts={machineFacts(row, machine)} />}
      {row !== undefined && (
        <Section title="Memory by claim" aside={<MemoryHelp />}>
          <div className="stack gap-16 machine-memory">
            <MemoryBar host={row} />
            <Table
              label="Memory by claim"
              rows={row.claims}
              keyOf={({ service, replica }) => `${service} ${replica}`}
              columns={CLAIMS}
              none="No replica claims memory on this machine."
            />
          </div>
        </Section>
      )}
      <MachineTabs machine={machine} />
    </Page>
  );
}

function Subtitle({ row: { kind, state, chip, totalBytes } }: { readonly row: HostRow }) {
  const about = [kind === "Host" ? "Host" : "Kubernetes node", chip, formatBytes(totalBytes)];
  return (
    <span className="row">
      <State state={state} />
      <span>{about.filter(Boolean).join(" · ")}</span>
    </span>
  );
}

function ServiceMark({ service }: { readonly service: string }) {
  const color = service === "" ? "var(--idle)" : `var(--series-${seriesOf(service)})`;
  return (
    <span className="line">
      <span className="swatch" style={{ background: color }} />
      <ServiceLink service={service} />
    </span>
  );
}

const CLAIMS: readonly Column<ClaimRow>[] = [
  { id: "service", header: "Service", cell: ({ service }) => <ServiceMark service={service} /> },
  { id: "replica", header: "Replica", cell: ({ replica }) => <bdi>{replica}</bdi> },
  { id: "phase", header: "Phase", cell: ({ phase }) => phase },
  { id: "claimed", header: "Claimed", cell: ({ bytes }) => formatBytes(bytes), isNumber: true },
  { id: "used", header: "In use", cell: ({ usedBytes }) => formatBytes(usedBytes), isNumber: true },
];

const LABEL_DEVICE_CLASS = "metalbridge.dev/device-class";

/** The facts of a host or a node. */
function machineFacts(row: HostRow, machine: Machine): readonly Fact[] {
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
