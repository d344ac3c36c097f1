/** The memory of a machine as a bar, with its legend: who claims what. */
import { Link } from "@tanstack/react-router";
import type { ClaimRow, HostRow } from "../../../../src/console/rows.ts";
import { keepNamespace } from "../../address/search.ts";
import { formatBytes } from "../../parts/format.ts";
import { MemoryBar, MemoryHelp, seriesOf } from "../../parts/memory-bar.tsx";
import { Section } from "../../parts/page.tsx";
import { type PlainColumn, PlainTable } from "../../parts/plain-table.tsx";
import { hostText } from "../../texts/host.ts";
import { text } from "../../texts/text.ts";

export function MachineMemory({ row }: { readonly row: HostRow }) {
  return (
    <Section title={hostText.memory} aside={<MemoryHelp />}>
      <div className="machine-memory">
        <MemoryBar host={row} />
        <PlainTable
          label={hostText.memory}
          rows={row.claims}
          keyOf={({ service, replica }) => `${service} ${replica}`}
          columns={COLUMNS}
          none={hostText.noClaims}
        />
      </div>
    </Section>
  );
}

export function ServiceLink({ service }: { readonly service: string }) {
  if (service === "") return <span className="muted">{text.memory.hidden}</span>;
  return (
    <Link to={`/services/${service}` as "/"} search={keepNamespace} className="link">
      <bdi>{service}</bdi>
    </Link>
  );
}

const COLUMNS: readonly PlainColumn<ClaimRow>[] = [
  {
    id: "service",
    header: hostText.service,
    cell: ({ service }) => (
      <span className="claim-name">
        <span
          className="swatch"
          style={{ background: service === "" ? "var(--idle)" : `var(--series-${seriesOf(service)})` }}
        />
        <ServiceLink service={service} />
      </span>
    ),
  },
  { id: "replica", header: hostText.replica, cell: ({ replica }) => <bdi>{replica}</bdi> },
  { id: "phase", header: hostText.phase, cell: ({ phase }) => phase },
  {
    id: "claimed",
    header: hostText.claimed,
    cell: ({ bytes }) => formatBytes(bytes),
    isNumber: true,
  },
  {
    id: "used",
    header: hostText.inUse,
    cell: ({ usedBytes }) => formatBytes(usedBytes),
    isNumber: true,
  },
];
