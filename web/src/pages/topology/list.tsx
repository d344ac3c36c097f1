/** The topology as a table: for screen readers, for phones, and to copy. */
import type { ServiceRow } from "../../../../src/console/rows.ts";
import { hrefOfService } from "../../address/href.ts";
import { formatRate } from "../../parts/format.ts";
import { State } from "../../parts/state.tsx";
import { type Column, DataTable, namespacedKey } from "../../parts/table.tsx";
import { text } from "../../texts/text.ts";

export function TopologyList({ services }: { readonly services: readonly ServiceRow[] }) {
  return (
    <DataTable
      id="topology"
      label={text.pages.topology}
      rows={services}
      keyOf={namespacedKey}
      columns={COLUMNS}
      hrefOf={hrefOfService}
      defaultSort="service"
    />
  );
}

const COLUMNS: readonly Column<ServiceRow>[] = [
  {
    id: "service",
    header: "Service",
    value: ({ namespace, name }) => `${namespace}/${name}`,
    cell: ({ namespace, name }) => <bdi>{`${namespace}/${name}`}</bdi>,
    width: "minmax(140px, 2fr)",
  },
  {
    id: "state",
    header: "State",
    value: ({ state }) => state.word,
    cell: ({ state }) => <State state={state} />,
    width: "minmax(136px, 1fr)",
  },
  {
    id: "replicas",
    header: "Replicas",
    value: ({ ready }) => ready,
    cell: ({ ready, desired }) => `${ready}/${desired}`,
    width: "64px",
    isNumber: true,
  },
  {
    id: "machines",
    header: "Machines",
    value: ({ hosts }) => hosts.join(", "),
    cell: ({ hosts }) => <bdi>{hosts.length === 0 ? "–" : hosts.join(", ")}</bdi>,
    width: "minmax(104px, 2fr)",
  },
  {
    id: "speed",
    header: "Tokens/s",
    value: ({ performance }) => performance.tokensPerSecond,
    cell: ({ performance }) => formatRate(performance.tokensPerSecond),
    width: "64px",
    isNumber: true,
  },
  {
    id: "inflight",
    header: "In flight",
    value: ({ performance }) => performance.requestsInFlight,
    cell: ({ performance }) => formatRate(performance.requestsInFlight),
    width: "64px",
    isNumber: true,
  },
];
