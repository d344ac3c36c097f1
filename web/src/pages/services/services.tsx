/** All services, with the reason where one does not serve. */
import { Plus } from "lucide-react";
import { useMemo } from "react";
import type { ServiceRow } from "../../../../src/console/rows.ts";
import { hrefOfService } from "../../address/href.ts";
import { useNamespace, useSearchParam, useSetSearch } from "../../address/search.ts";
import { useHiddenNamespace } from "../../address/sight.ts";
import { useRight } from "../../api/session.ts";
import { useList } from "../../live/hooks.ts";
import { Button } from "../../parts/buttons.tsx";
import { formatBytes, formatCount, formatRate } from "../../parts/format.ts";
import { LevelChips, useLevels, countOf, Filter } from "../../parts/table/filters.tsx";
import { Empty, Failure, Skeleton } from "../../parts/notices.tsx";
import { Page } from "../../parts/page.tsx";
import { type Column, DataTable, namespacedKey } from "../../parts/table/table.tsx";
import { isShown, reasonOf } from "./filter.ts";
import "./services.css";
import { Ago, countReady, State } from "../../parts/states.tsx";

const LEVEL_WORDS = {
  ok: "Ready",
  busy: "In progress",
  warn: "Needs attention",
  bad: "Not serving",
  idle: "At rest",
} as const;

export function ServicesPage() {
  const services = useList("services");
  const namespace = useNamespace();
  const [words, setWords] = useSearchParam("q");
  const [levels] = useLevels();
  const here = useMemo(
    () => services.rows.filter((row) => namespace === "" || row.namespace === namespace),
    [services.rows, namespace],
  );
  const shown = useMemo(() => here.filter((row) => isShown(row, words, levels)), [here, words, levels]);
  const hasNone = services.isSynced && here.length === 0;
  return (
    <Page
      title="Services"
      subtitle={services.isSynced && !hasNone ? `${countReady(here)} of ${here.length} ready` : undefined}
      isWide
    >
      {services.refusal !== undefined && <Failure error={services.refusal} />}
      {!services.isSynced && services.refusal === undefined && <Skeleton />}
      {hasNone && <NoServices namespace={namespace} />}
      {here.length > 0 && (
        <DataTable
          id="services"
          label="Services"
          rows={shown}
          keyOf={namespacedKey}
          columns={SERVICE_COLUMNS}
          hrefOf={hrefOfService}
          defaultSort="name"
          toolbar={
            <>
              <Filter label={"Filter by name, model, host"} words={words} onChange={setWords} />
              <LevelChips label="States" rows={here} words={LEVEL_WORDS} />
              <span className="muted small number">{countOf(shown.length, here.length)}</span>
            </>
          }
        />
      )}
    </Page>
  );
}

function NoServices({ namespace }: { readonly namespace: string }) {
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

/** Columns of the list of services. */
const SERVICE_COLUMNS: readonly Column<ServiceRow>[] = [
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
