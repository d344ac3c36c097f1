/** The page Gateway: model names, keys, queues. */

import { Link } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import type { QueueRow } from "../../../../src/console/rows.ts";
import { keepNamespace, useNamespace, useSearchParam } from "../../address/search.ts";
import { useSession } from "../../api/session.ts";
import { type Live, useList } from "../../live/hooks.ts";
import { formatCount, formatDuration } from "../../parts/format.ts";
import { Empty, Failure, Skeleton } from "../../parts/notices.tsx";
import { Page, Tabs } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table/table.tsx";
import { KeysTab } from "./keys/keys-tab.tsx";
import { ModelsTab } from "./models-tab.tsx";
import "./gateway.css";
import { Command } from "../../parts/buttons.tsx";

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
              content: () => (session.hasGateway ? <ModelsTab gatewayUrl={session.gatewayUrl} /> : <None />),
            },
            { id: "keys", label: "Keys", content: () => <KeysTab queues={queues.rows} /> },
            {
              id: "queues",
              label: "Queues",
              ...(waiting > 0 && { count: waiting }),
              content: () => <QueuesTab queues={queues} hasGateway={session.hasGateway} none={<None />} />,
            },
          ]}
        />
      )}
    </Page>
  );
}

function None() {
  return (
    <Empty
      title="No gateway is configured"
      why="A gateway gives all models one base URL, with keys, limits and fair queues. Start one, and start the server with its address:"
      command="metalbridge gateway --address 127.0.0.1 --port 4000"
    >
      <Command>metalbridge server --gateway-url http://127.0.0.1:4000</Command>
    </Empty>
  );
}

/** Requests that wait for a replica, by service and key. */
function QueuesTab({
  queues: { rows, isSynced, refusal },
  hasGateway,
  none,
}: {
  readonly queues: Live<QueueRow>;
  readonly hasGateway: boolean;
  readonly none: ReactNode;
}) {
  const namespace = useNamespace();
  const shown = useMemo(
    () => rows.filter(({ service }) => namespace === "" || service.startsWith(`${namespace}/`)),
    [rows, namespace],
  );
  if (refusal !== undefined) return <Failure error={refusal} />;
  if (!isSynced) return <Skeleton />;
  if (rows.length === 0 && !hasGateway) return none;
  if (rows.length === 0)
    return (
      <Empty
        title="No queues yet"
        why="Requests that wait for a replica appear here, with the keys they belong to."
      />
    );
  return (
    <DataTable
      id="queues"
      label="Queues"
      rows={shown}
      keyOf={({ service }) => service}
      columns={COLUMNS}
      defaultSort="-waiting"
    />
  );
}

const COLUMNS: readonly Column<QueueRow>[] = [
  {
    id: "service",
    header: "Service",
    value: ({ service }) => service,
    cell: ({ service }) => (
      <Link to={`/services/${service}` as "/"} search={keepNamespace} className="link">
        <bdi>{service}</bdi>
      </Link>
    ),
    width: "minmax(140px, 2fr)",
  },
  {
    id: "waiting",
    header: "Waiting",
    value: ({ waiting }) => waiting,
    cell: ({ waiting }) => formatCount(waiting),
    width: "80px",
    isNumber: true,
  },
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
