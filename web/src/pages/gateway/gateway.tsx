import { useMemo } from "react";
import type { QueueRow } from "../../../../src/console/rows.ts";
import { useNamespace, useSearchParam } from "../../address/search.ts";
import { useSession } from "../../api/session.ts";
import { type Live, useList } from "../../live/hooks.ts";
import { formatCount, formatDuration } from "../../parts/format.ts";
import { Empty } from "../../parts/notices.tsx";
import { Page, Tabs } from "../../parts/page.tsx";
import { type Column, figure, Table } from "../../parts/table/table.tsx";
import { KeysTab } from "./keys/keys-tab.tsx";
import { ModelsTab } from "./models-tab.tsx";
import "./gateway.css";
import { NoGateway } from "../../parts/gateway-key-form.tsx";
import { ServiceLink } from "../../parts/objects/objects.tsx";

export function GatewayPage() {
  const session = useSession();
  const queues = useList("queues");
  const [tab, setTab] = useSearchParam("tab", "models");
  const waiting = queues.rows.reduce((sum, row) => sum + row.waiting, 0);
  return (
    <Page title="Gateway" subtitle="One base URL for all models of the farm." isWide>
      {session !== undefined && (
        <Tabs
          value={tab}
          onChange={setTab}
          tabs={[
            {
              id: "models",
              label: "Models",
              content: () =>
                session.hasGateway ? <ModelsTab gatewayUrl={session.gatewayUrl} /> : <NoGateway />,
            },
            { id: "keys", label: "Keys", content: () => <KeysTab queues={queues.rows} /> },
            {
              id: "queues",
              label: "Queues",
              ...(waiting > 0 && { count: waiting }),
              content: () => <QueuesTab queues={queues} hasGateway={session.hasGateway} />,
            },
          ]}
        />
      )}
    </Page>
  );
}

/** Requests that wait for a replica, by service and key. */
function QueuesTab({
  queues,
  hasGateway,
}: {
  readonly queues: Live<QueueRow>;
  readonly hasGateway: boolean;
}) {
  const namespace = useNamespace();
  const shown = useMemo(
    () => queues.rows.filter(({ service }) => namespace === "" || service.startsWith(`${namespace}/`)),
    [queues.rows, namespace],
  );
  return (
    <Table
      label="Queues"
      rows={shown}
      of={queues}
      keyOf={({ service }) => service}
      columns={COLUMNS}
      none={
        hasGateway || queues.rows.length > 0 ? (
          <Empty
            title="No queues yet"
            why="Requests that wait for a replica appear here, with the keys they belong to."
          />
        ) : (
          <NoGateway />
        )
      }
      list={{ id: "queues", defaultSort: "-waiting" }}
    />
  );
}

const COLUMNS: readonly Column<QueueRow>[] = [
  {
    id: "service",
    header: "Service",
    value: ({ service }) => service,
    cell: ({ service }) => <ServiceLink service={service} />,
    width: "minmax(140px, 2fr)",
  },
  figure("waiting", "Waiting", ({ waiting }) => waiting, formatCount, "80px"),
  {
    id: "longest",
    header: "Longest wait",
    value: ({ longestWaitSeconds }) => longestWaitSeconds,
    cell: ({ waiting, longestWaitSeconds }) =>
      waiting === 0 ? "–" : formatDuration(longestWaitSeconds * 1_000),
    width: "104px",
    isNumber: true,
  },
  {
    id: "slots",
    header: "Slots in use",
    value: ({ slotsUsed, slotsTotal }) => (slotsTotal === 0 ? 0 : slotsUsed / slotsTotal),
    cell: (row) => <Slots row={row} />,
    width: "minmax(140px, 1fr)",
  },
  {
    id: "keys",
    header: "Waiting by key",
    value: ({ keys }) => keys.map(({ key, waiting }) => `${key} ${waiting}`).join(", "),
    cell: ({ keys }) =>
      keys.map(({ key, waiting, longestWaitSeconds }) => (
        <span key={key} className="gateway-key-wait">
          <bdi>{key}</bdi> <span className="number">{waiting}</span>{" "}
          <span className="muted number">({formatDuration(longestWaitSeconds * 1_000)})</span>
        </span>
      )),
    width: "minmax(120px, 2fr)",
  },
];

function Slots({ row: { slotsUsed, slotsTotal } }: { readonly row: QueueRow }) {
  const share = slotsTotal === 0 ? 0 : Math.min(1, slotsUsed / slotsTotal);
  return (
    <span className="row">
      <span className="progress gateway-slots" aria-hidden>
        <span style={{ width: `${100 * share}%` }} />
      </span>
      <span className="number">{`${slotsUsed} of ${slotsTotal}`}</span>
    </span>
  );
}
