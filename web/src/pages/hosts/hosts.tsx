/** All machines: cards or a table. */

import { LayoutGrid, Rows3 } from "lucide-react";
import { useMemo } from "react";
import type { HostRow } from "../../../../src/console/rows.ts";
import { useSearchParam } from "../../address/search.ts";
import { hrefOfMachine } from "../../address/to.tsx";
import { useList } from "../../live/hooks.ts";
import { Segments } from "../../parts/buttons.tsx";
import { formatBytes, formatCount } from "../../parts/format.ts";
import { freeBytesOf } from "../../parts/free-bytes.ts";
import { MachineCard, MemoryBar, MemoryHelp, NoMachines } from "../../parts/machines.tsx";
import { Page } from "../../parts/page.tsx";
import { Ago, countReady, Tag } from "../../parts/states.tsx";
import { type ListFilter, useFilter } from "../../parts/table/filters.tsx";
import { type Column, figure, stateColumn, Table } from "../../parts/table/table.tsx";

/** More cards than this make a page too long to read. */
const CARDS_BY_DEFAULT = 24;
const MAX_CARDS = 240;

const FILTER: ListFilter<HostRow> = {
  textsOf: ({ name, chip, state, engines }) => [
    ...[name, chip, state.word],
    ...engines.map((engine) => engine.name),
  ],
  levels: {
    ok: "Ready",
    busy: "In progress",
    warn: "Needs attention",
    bad: "Not ready",
    idle: "Cordoned or drained",
  },
};

export function HostsPage() {
  const hosts = useList("hosts");
  const [chosen, setView] = useSearchParam("view");
  const { length } = hosts.rows;
  const view = chosen === "" ? (length <= CARDS_BY_DEFAULT ? "cards" : "table") : chosen;
  const choice = (
    <Segments
      label="View"
      value={view}
      onChange={setView}
      options={[
        { id: "cards", label: "Cards", icon: <LayoutGrid size={14} aria-hidden /> },
        { id: "table", label: "Table", icon: <Rows3 size={14} aria-hidden /> },
      ]}
    />
  );
  return (
    <Page
      title="Hosts"
      subtitle={length > 0 ? `${countReady(hosts.rows)} of ${length} ready` : undefined}
      actions={length > 0 && choice}
      isWide
    >
      {length > 0 && view === "cards" ? (
        <Cards hosts={hosts.rows} />
      ) : (
        <Table
          label="Hosts"
          rows={hosts.rows}
          of={hosts}
          keyOf={keyOfHost}
          columns={COLUMNS}
          none={
            <NoMachines why="Register a Mac or Linux machine, and run the command that this prints on that machine. Its memory and engines appear here within seconds." />
          }
          list={{
            id: "hosts",
            hrefOf: hrefOfMachine,
            defaultSort: "name",
            filter: FILTER,
            toolbar: <MemoryHelp />,
          }}
        />
      )}
    </Page>
  );
}

/** Only a stale host has a time; the others report every few seconds. */
function Seen({ host: { isStale, lastSeen } }: { readonly host: HostRow }) {
  return isStale ? <Ago at={lastSeen} /> : "now";
}

function Cards({ hosts }: { readonly hosts: readonly HostRow[] }) {
  const { found, bar } = useFilter(hosts, FILTER);
  const sorted = useMemo(() => [...found].sort((a, b) => a.name.localeCompare(b.name)), [found]);
  return (
    <div className="stack">
      <div className="row">
        {bar}
        <MemoryHelp />
      </div>
      <ul className="cards">
        {sorted.slice(0, MAX_CARDS).map((host) => (
          <li key={keyOfHost(host)}>
            <MachineCard
              machine={host}
              about={[host.chip, formatBytes(host.totalBytes), host.os]}
              facts={[
                ["Engines", host.engines.map(({ name }) => name).join(", ") || "–"],
                ["Models that fit", formatCount(host.fits)],
                ["Last seen", <Seen key="seen" host={host} />],
              ]}
            />
          </li>
        ))}
      </ul>
      {sorted.length > MAX_CARDS && (
        <p className="muted">{`${sorted.length - MAX_CARDS} more: use the filter.`}</p>
      )}
    </div>
  );
}

const COLUMNS: readonly Column<HostRow>[] = [
  { id: "name", header: "Name", value: ({ name }) => name, width: "minmax(104px, 1.2fr)" },
  stateColumn("minmax(104px, 1fr)"),
  { id: "chip", header: "Chip", value: ({ chip }) => chip, width: "minmax(88px, 1.4fr)", isWideOnly: true },
  {
    id: "memory",
    header: "Memory",
    value: ({ claims, budgetBytes }) =>
      budgetBytes === 0 ? undefined : claims.reduce((sum, { bytes }) => sum + bytes, 0) / budgetBytes,
    cell: (host) => <MemoryBar host={host} hasLegend={false} />,
    width: "minmax(96px, 1.8fr)",
  },
  figure("left", "Free", freeOf, formatBytes, "76px"),
  {
    id: "engines",
    header: "Engines",
    value: ({ engines }) => engines.map(({ name, version }) => `${name} ${version}`.trim()).join(", "),
    width: "minmax(104px, 1.1fr)",
    isWideOnly: true,
  },
  {
    id: "pressure",
    header: "Pressure",
    value: ({ pressure }) => pressure,
    cell: ({ pressure }) =>
      pressure === "Normal" || pressure === "Unknown" ? (
        <span className="muted">{pressure}</span>
      ) : (
        <Tag level={pressure === "Critical" ? "bad" : "warn"}>{pressure}</Tag>
      ),
    width: "72px",
  },
  { ...figure("fits", "Fits", ({ fits }) => fits, formatCount, "56px"), isWideOnly: true },
  {
    id: "seen",
    header: "Last seen",
    value: ({ lastSeen }) => lastSeen,
    cell: (host) => <Seen host={host} />,
    width: "80px",
    isNumber: true,
  },
];

/** Unknown without a budget; a cordoned machine takes nothing. */
function freeOf(host: HostRow): number | undefined {
  return host.budgetBytes === 0 || host.isCordoned ? undefined : Math.max(0, freeBytesOf(host));
}

function keyOfHost({ kind, name }: HostRow): string {
  return `${kind}/${name}`;
}
