/** The page Gateway: model names, keys, queues. */

import { Link } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import type { QueueRow } from "../../../../src/console/rows.ts";
import { keepNamespace, useNamespace, useSearchParam } from "../../address/search.ts";
import { useSession } from "../../api/session.ts";
import { type Live, useList } from "../../live/hooks.ts";
import { Command } from "../../parts/copy.tsx";
import { formatCount, formatDuration } from "../../parts/format.ts";
import { Empty, Failure, Skeleton } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { gatewayTexts } from "../../texts/gateway.ts";
import { text } from "../../texts/text.ts";
import { KeysTab } from "./keys/keys-tab.tsx";
import { ModelsTab } from "./models-tab.tsx";
import "./gateway.css";

export function GatewayPage() {
  const session = useSession();
  const queues = useList("queues");
  const [tab, setTab] = useSearchParam("tab", "models");
  const waiting = queues.rows.reduce((sum, row) => sum + row.waiting, 0);
  const { tabs } = gatewayTexts;
  return (
    <Page title={text.pages.gateway} subtitle={gatewayTexts.subtitle} isWide>
      {session !== undefined && (
        <Tabs
          value={tab}
          onChange={setTab}
          tabs={[
            {
              id: "models",
              label: tabs.models,
              content: () => (session.hasGateway ? <ModelsTab gatewayUrl={session.gatewayUrl} /> : <None />),
            },
            { id: "keys", label: tabs.keys, content: () => <KeysTab queues={queues.rows} /> },
            {
              id: "queues",
              label: tabs.queues,
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
    <Empty title={gatewayTexts.none} why={gatewayTexts.noneWhy} command={gatewayTexts.noneCommand}>
      <Command>{gatewayTexts.noneServer}</Command>
    </Empty>
  );
}

const texts = gatewayTexts.queues;

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
  if (rows.length === 0) return <Empty title={texts.empty} why={texts.emptyWhy} />;
  return (
    <DataTable
      id="queues"
      label={texts.label}
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
    header: texts.service,
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
    header: texts.waiting,
    value: ({ waiting }) => waiting,
    cell: ({ waiting }) => formatCount(waiting),
    width: "80px",
    isNumber: true,
  },
  {
    id: "longest",
    header: texts.longest,
    value: ({ longestWaitSeconds }) => longestWaitSeconds,
    cell: ({ waiting, longestWaitSeconds }) =>
      waiting === 0 ? "–" : formatDuration(longestWaitSeconds * 1_000),
    width: "104px",
    isNumber: true,
  },
  {
    id: "slots",
    header: texts.slots,
    value: ({ slotsUsed, slotsTotal }) => (slotsTotal === 0 ? 0 : slotsUsed / slotsTotal),
    cell: (row) => <Slots row={row} />,
    width: "minmax(140px, 1fr)",
  },
  {
    id: "keys",
    header: texts.keys,
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
      <span className="number">{texts.ofAll(slotsUsed, slotsTotal)}</span>
    </span>
  );
}
