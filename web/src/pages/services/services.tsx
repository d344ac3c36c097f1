/** All services, with the reason where one does not serve. */

import { Plus } from "lucide-react";
import type { ServiceRow } from "../../../../src/console/rows.ts";
import { useInNamespace, useNamespace, useSetSearch } from "../../address/search.ts";
import { useHiddenNamespace } from "../../address/sight.ts";
import { useRight } from "../../api/session.ts";
import { useList } from "../../live/hooks.ts";
import { Button } from "../../parts/buttons.tsx";
import { formatBytes, formatCount, formatRate } from "../../parts/format.ts";
import { Empty, Failure } from "../../parts/notices.tsx";
import { Page } from "../../parts/page.tsx";
import { type Column, figure, namespaceColumn, namespacedKey, Table } from "../../parts/table/table.tsx";
import { reasonOf, SERVICE_FILTER } from "./filter.ts";
import "./services.css";
import { hrefOfService } from "../../address/to.tsx";
import { Ago, countReady, State } from "../../parts/states.tsx";

export function ServicesPage() {
  const services = useList("services");
  const here = useInNamespace(services.rows);
  const subtitle = here.length > 0 ? `${countReady(here)} of ${here.length} ready` : undefined;
  return (
    <Page title="Services" subtitle={subtitle} isWide>
      <Table
        label="Services"
        rows={here}
        of={services}
        keyOf={namespacedKey}
        columns={SERVICE_COLUMNS}
        none={<NoServices />}
        list={{ id: "services", hrefOf: hrefOfService, defaultSort: "name", filter: SERVICE_FILTER }}
      />
    </Page>
  );
}

function NoServices() {
  const namespace = useNamespace();
  const setSearch = useSetSearch();
  const hidden = useHiddenNamespace("inferenceservices");
  const right = useRight({
    verb: "create",
    resource: "inferenceservices",
    namespace: namespace === "" ? "default" : namespace,
  });
  if (hidden !== undefined) return <Failure error={hidden} />;
  return (
    <Empty
      title={namespace === "" ? "No services yet" : `No services in namespace ${namespace}`}
      why="A service serves one model under one address, on as many machines as you want. Choose a model, and see before you deploy it where it fits and how fast it will be. In a terminal:"
      command="metalbridge deploy qwen3:8b"
    >
      <Button
        look="primary"
        icon={<Plus size={14} aria-hidden />}
        right={right}
        onClick={() => setSearch({ deploy: "new" })}
      >
        Deploy a model
      </Button>
    </Empty>
  );
}

const SERVICE_COLUMNS: readonly Column<ServiceRow>[] = [
  { id: "name", header: "Name", value: ({ name }) => name, width: "minmax(104px, 1.1fr)" },
  namespaceColumn(),
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
  figure("speed", "Tokens/s", ({ performance }) => performance.tokensPerSecond, formatRate, "60px"),
  {
    ...figure("requests", "Requests", ({ performance }) => performance.requestsInFlight, formatWhole, "72px"),
    isOptional: true,
  },
  figure("memory", "Memory", ({ claimedBytes }) => claimedBytes, formatBytes, "68px"),
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

function formatWhole(value: number | undefined): string {
  return formatCount(value && Math.round(value));
}

/** The first, and how many more. */
function namesOf([first = "–", ...others]: readonly string[]): string {
  return others.length === 0 ? first : `${first} +${others.length}`;
}

function StateAndReason({ row }: { readonly row: ServiceRow }) {
  const reason = reasonOf(row);
  return (
    <span className="line state-reason" title={reason === "" ? undefined : reason}>
      <State state={row.state} />
      {reason !== "" && <span className="truncate muted small">{reason}</span>}
    </span>
  );
}
