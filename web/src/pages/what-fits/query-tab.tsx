/** The tab Query: a name, where that model would go, and the machines for it, best first. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useSearchParam, useSetSearch } from "../../address/search.ts";
import { type QueryRow, queryDensity } from "../../api/density.ts";
import { useList } from "../../live/hooks.ts";
import { Button } from "../../parts/buttons.tsx";
import { useDebounced } from "../../parts/fields.tsx";
import { formatRate } from "../../parts/format.ts";
import { Failure } from "../../parts/notices.tsx";
import { MachineLink } from "../../parts/objects/objects.tsx";
import { Section } from "../../parts/page.tsx";
import { EstimatedSpeed, Fit, Score } from "../../parts/states.tsx";
import { type Column, Table } from "../../parts/table/table.tsx";
import { adviceFor } from "./advice.ts";
import { WhatIf } from "./what-if.tsx";

const MAX_SHOWN = 100;

export function QueryTab() {
  const [name, setName] = useSearchParam("model");
  const settled = useDebounced(name.trim());
  const { data, error, isFetching } = useQuery({
    queryKey: ["density-query", settled],
    queryFn: ({ signal }) => queryDensity(settled, signal),
    enabled: settled !== "",
    placeholderData: (before) => before,
  });
  return (
    <div className="stack">
      <label className="field query-field">
        <span>Model, family or file</span>
        <input
          type="search"
          placeholder="Qwen2.5-7B"
          value={name}
          onChange={({ target }) => setName(target.value)}
        />
      </label>
      {settled === "" && <p className="muted">Type the name of a model, such as Qwen2.5-7B or Llama-3.1.</p>}
      {error !== null && <Failure error={error} />}
      {settled !== "" && data !== undefined && (
        <div aria-busy={isFetching} className="stack">
          {data.models.length === 0 ? (
            <Nearest name={settled} nearest={data.nearest ?? []} onChoose={setName} />
          ) : (
            <Answer rows={data.rankedNodes} total={data.total} models={data.models} />
          )}
        </div>
      )}
    </div>
  );
}

function Nearest({
  name,
  nearest,
  onChoose,
}: {
  readonly name: string;
  readonly nearest: readonly string[];
  readonly onChoose: (name: string) => void;
}) {
  return (
    <div className="stack" aria-live="polite">
      <p>{`The catalog has no model named ${name}.`}</p>
      {nearest.length > 0 && (
        <div className="row">
          <span className="muted">Similar names:</span>
          {nearest.map((one) => (
            <Button key={one} onClick={() => onChoose(one)}>
              {one}
            </Button>
          ))}
        </div>
      )}
    </div>
  );
}

interface AdvisedRow extends QueryRow {
  readonly advice: string;
}

function Answer({
  rows,
  total,
  models,
}: {
  readonly rows: readonly QueryRow[];
  readonly total: number;
  readonly models: readonly string[];
}) {
  const hosts = useList("hosts").rows;
  const advised = useMemo(() => {
    const left = new Map(hosts.map(({ kind, name, leftBytes }) => [`${kind}/${name}`, leftBytes]));
    return rows
      .slice(0, MAX_SHOWN)
      .map((row) => ({ ...row, advice: adviceFor(row, left.get(`${row.kind}/${row.nodeName}`)) }));
  }, [rows, hosts]);
  const [first = "", ...others] = models;
  return (
    <>
      {others.length === 0 && <WhatIf model={first} />}
      <Section
        title="Machines with all of their memory"
        aside={
          <span className="muted small number" aria-live="polite">
            {others.length === 0 ? "1 model" : `${models.length} models: choose one to see where it would go`}
            {` · ${advised.length} of ${total} rows`}
          </span>
        }
      >
        <Table
          label="Query"
          rows={advised}
          keyOf={({ kind, nodeName, model }) => `${kind}/${nodeName}/${model.name}`}
          columns={advised.some(({ advice }) => advice !== "") ? COLUMNS : WITHOUT_ADVICE}
          none="No machines yet"
        />
      </Section>
    </>
  );
}

const COLUMNS: readonly Column<AdvisedRow>[] = [
  {
    id: "machine",
    header: "Machine",
    cell: ({ kind, nodeName }) => <MachineLink kind={kind} name={nodeName} />,
  },
  { id: "model", header: "Model", cell: ({ model }) => <ToModel model={model} />, isWide: true },
  { id: "level", header: "Fit", cell: ({ fitLevel }) => <Fit level={fitLevel} /> },
  { id: "score", header: "Score", cell: ({ score }) => <Score value={score} /> },
  { id: "speed", header: "Tokens/s", cell: (row) => <Speed row={row} />, isNumber: true },
  {
    id: "memory",
    header: "Memory",
    cell: ({ model: { memory_required_gb: needed, memory_available_gb: all } }) =>
      `${needed.toFixed(1)} / ${all.toFixed(1)} GiB`,
    isNumber: true,
  },
  {
    id: "quantization",
    header: "Quantization",
    cell: ({ model }) => (
      <>
        {model.best_quant} <span className="muted">{model.runtime}</span>
      </>
    ),
  },
  {
    id: "advice",
    header: "What would make it fit",
    cell: ({ advice }) => advice !== "" && <span className="muted">{advice}</span>,
    isWide: true,
  },
  { id: "deploy", header: "", cell: (row) => <Actions row={row} /> },
];

const WITHOUT_ADVICE = COLUMNS.filter(({ id }) => id !== "advice");

/** Where it would go, with the quantization that scores best. */
function ToModel({ model: { name, best_quant } }: { readonly model: AdvisedRow["model"] }) {
  return (
    <Link
      to="."
      search={(before: object) => ({ ...before, model: name, quantization: best_quant }) as never}
      className="link"
    >
      {name}
    </Link>
  );
}

function Speed({ row: { machine, model } }: { readonly row: AdvisedRow }) {
  const measured = machine?.tokensPerSecond ?? null;
  const basis = machine?.basis === "live" ? "live" : "measured";
  if (measured === null) return <EstimatedSpeed fit={model} />;
  return (
    <>
      {formatRate(measured)} <span className="muted small">{basis}</span>
    </>
  );
}

/** A deployment without further settings runs on hosts. */
function Actions({ row: { model, kind } }: { readonly row: AdvisedRow }) {
  const setSearch = useSetSearch();
  if (kind === "Node") return null;
  return (
    <button type="button" className="link-button" onClick={() => setSearch({ deploy: model.name })}>
      Deploy
    </button>
  );
}
