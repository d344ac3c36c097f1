/** Requests that wait for a replica, by service and key. */
import { Link } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import type { QueueRow } from "../../../../src/console/rows.ts";
import { keepNamespace, useNamespace } from "../../address/search.ts";
import type { Live } from "../../live/hooks.ts";
import { formatCount, formatDuration } from "../../parts/format.ts";
import { Empty, Failure, Skeleton } from "../../parts/notice.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { gatewayTexts } from "../../texts/gateway.ts";

const texts = gatewayTexts.queues;

export function QueuesTab({
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
