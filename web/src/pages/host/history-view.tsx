/** The history of a host as a table. */
import type { Host } from "../../../../src/api/host.ts";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import { type PlainColumn, PlainTable } from "../../parts/plain-table.tsx";
import { State } from "../../parts/state.tsx";
import { Ago } from "../../parts/time.tsx";
import { detailsText } from "../../texts/details.ts";
import { hostText } from "../../texts/host.ts";
import { type HistoryEntry, hostHistory } from "./history.ts";

export function HistoryView({
  host,
  replicas,
}: {
  readonly host: Host;
  readonly replicas: readonly InferenceReplica[];
}) {
  return (
    <PlainTable
      label={hostText.tabs.history}
      rows={hostHistory(host, replicas)}
      keyOf={({ key }) => key}
      columns={COLUMNS}
      none={hostText.history.none}
    />
  );
}

const COLUMNS: readonly PlainColumn<HistoryEntry>[] = [
  { id: "when", header: hostText.history.when, cell: ({ at }) => <Ago at={at} /> },
  { id: "what", header: hostText.history.what, cell: ({ subject }) => <bdi>{subject}</bdi> },
  { id: "change", header: hostText.history.change, cell: ({ state }) => <State state={state} /> },
  { id: "reason", header: detailsText.reason, cell: ({ reason }) => <code>{reason}</code> },
  { id: "message", header: detailsText.message, cell: ({ message }) => message, isWide: true },
];
