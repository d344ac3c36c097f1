/** Columns of the list of services. */
import type { ServiceRow } from "../../../../src/console/rows.ts";
import { formatBytes, formatCount, formatRate } from "../../parts/format.ts";
import { State } from "../../parts/state.tsx";
import type { Column } from "../../parts/table.tsx";
import { Ago } from "../../parts/time.tsx";
import { reasonOf } from "./filter.ts";

export const SERVICE_COLUMNS: readonly Column<ServiceRow>[] = [
  { id: "name", header: "Name", value: ({ name }) => name, width: "minmax(104px, 1.1fr)" },
  {
    id: "namespace",
    header: "Namespace",
    value: ({ namespace }) => namespace,
    cell: ({ namespace }) => <span className="muted">{namespace}</span>,
    width: "minmax(72px, 0.7fr)",
  },
  {
    id: "state",
    header: "State",
    value: ({ state }) => state.word,
    cell: (row) => <StateAndReason row={row} />,
    width: "minmax(132px, 3fr)",
  },
  {
    id: "ready",
    header: "Ready",
    value: ({ ready }) => ready,
    cell: ({ ready, desired }) => `${ready}/${desired}`,
    width: "44px",
    isNumber: true,
  },
  {
    id: "model",
    header: "Model",
    value: ({ model, quantization }) => `${model} ${quantization}`.trim(),
    cell: ({ model, quantization }) => (
      <span title={`${model} ${quantization}`.trim()}>
        {model} {quantization !== "" && <span className="muted">{quantization}</span>}
      </span>
    ),
    width: "minmax(96px, 2.2fr)",
  },
  {
    id: "runtime",
    header: "Runtime",
    value: ({ runtime }) => runtime,
    width: "minmax(72px, 0.7fr)",
    isOptional: true,
  },
  {
    id: "hosts",
    header: "Hosts",
    value: ({ hosts }) => hosts.join(", "),
    cell: ({ hosts }) => <span title={hosts.join(", ")}>{namesOf(hosts)}</span>,
    width: "minmax(88px, 0.9fr)",
    isWideOnly: true,
  },
  {
    id: "speed",
    header: "Tokens/s",
    value: ({ performance }) => performance.tokensPerSecond,
    cell: ({ performance }) => formatRate(performance.tokensPerSecond),
    width: "60px",
    isNumber: true,
  },
  {
    id: "requests",
    header: "Requests",
    value: ({ performance }) => performance.requestsInFlight,
    cell: ({ performance: { requestsInFlight } }) =>
      requestsInFlight === undefined ? "–" : formatCount(Math.round(requestsInFlight)),
    width: "72px",
    isNumber: true,
    isOptional: true,
  },
  {
    id: "memory",
    header: "Memory",
    value: ({ claimedBytes }) => claimedBytes,
    cell: ({ claimedBytes }) => formatBytes(claimedBytes),
    width: "68px",
    isNumber: true,
  },
  {
    id: "age",
    header: "Age",
    value: ({ createdAt }) => createdAt,
    cell: ({ createdAt }) => <Ago at={createdAt} suffix="" />,
    width: "72px",
    isNumber: true,
    isWideOnly: true,
  },
];

/** The first, and how many more. */
function namesOf([first = "–", ...others]: readonly string[]): string {
  return others.length === 0 ? first : `${first} +${others.length}`;
}

function StateAndReason({ row }: { readonly row: ServiceRow }) {
  const reason = reasonOf(row);
  return (
    <span className="state-reason" title={reason === "" ? undefined : reason}>
      <State state={row.state} />
      {reason !== "" && <span className="truncate muted small">{reason}</span>}
    </span>
  );
}
