/** The tab Query: a name, and the machines for it, best first. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { hrefOfMachine } from "../../address/href.ts";
import { keepNamespace, useSearchParam, useSetSearch } from "../../address/search.ts";
import { type QueryRow, queryDensity } from "../../api/density.ts";
import { useList } from "../../live/hooks.ts";
import { Button } from "../../parts/button.tsx";
import { useDebounced } from "../../parts/debounced.ts";
import { EstimatedSpeed, Fit, Score } from "../../parts/fit.tsx";
import { formatRate } from "../../parts/format.ts";
import { Failure } from "../../parts/notice.tsx";
import { type PlainColumn, PlainTable } from "../../parts/plain-table.tsx";
import { densityText } from "../../texts/density.ts";
import { adviceFor } from "./advice.ts";

const words = densityText.query;
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
      <label className="query-field">
        <span className="small muted">{words.label}</span>
        <input
          type="search"
          placeholder={words.placeholder}
          value={name}
          onChange={({ target }) => setName(target.value)}
        />
      </label>
      {settled === "" && <p className="muted">{words.start}</p>}
      {error !== null && <Failure error={error} />}
      {settled !== "" && data !== undefined && (
        <div aria-busy={isFetching} className="stack">
          {data.models.length === 0 ? (
            <Nearest name={settled} nearest={data.nearest ?? []} onChoose={setName} />
          ) : (
            <Answer rows={data.rankedNodes} total={data.total} models={data.models.length} />
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
      <p>{words.none(name)}</p>
      {nearest.length > 0 && (
        <div className="row">
          <span className="muted">{words.nearest}</span>
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
  readonly models: number;
}) {
  const hosts = useList("hosts").rows;
  const advised = useMemo(() => {
    const left = new Map(hosts.map(({ kind, name, leftBytes }) => [`${kind}/${name}`, leftBytes]));
    return rows
      .slice(0, MAX_SHOWN)
      .map((row) => ({ ...row, advice: adviceFor(row, left.get(`${row.kind}/${row.nodeName}`)) }));
  }, [rows, hosts]);
  return (
    <>
      <p className="muted small number" aria-live="polite">
        {words.matched(models)} · {words.shown(advised.length, total)}
      </p>
      <PlainTable
        label={densityText.tabs.query}
        rows={advised}
        keyOf={({ kind, nodeName, model }) => `${kind}/${nodeName}/${model.name}`}
        columns={advised.some(({ advice }) => advice !== "") ? COLUMNS : WITHOUT_ADVICE}
        none={densityText.nodes.empty}
      />
    </>
  );
}

export function MachineLink({ kind, name }: { readonly kind: "Host" | "Node"; readonly name: string }) {
  const path = hrefOfMachine({ kind, name });
  return (
    <Link to={path as "/"} search={keepNamespace} className="link">
      <bdi>{name}</bdi>
    </Link>
  );
}

const COLUMNS: readonly PlainColumn<AdvisedRow>[] = [
  {
    id: "machine",
    header: words.machine,
    cell: ({ kind, nodeName }) => <MachineLink kind={kind} name={nodeName} />,
  },
  { id: "model", header: words.model, cell: ({ model }) => <ToSimulate model={model} />, isWide: true },
  { id: "level", header: words.level, cell: ({ fitLevel }) => <Fit level={fitLevel} /> },
  { id: "score", header: words.score, cell: ({ score }) => <Score value={score} /> },
  { id: "speed", header: words.speed, cell: (row) => <Speed row={row} />, isNumber: true },
  {
    id: "memory",
    header: words.memory,
    cell: ({ model: { memory_required_gb: needed, memory_available_gb: all } }) =>
      `${needed.toFixed(1)} / ${all.toFixed(1)} GiB`,
    isNumber: true,
  },
  {
    id: "quantization",
    header: words.quantization,
    cell: ({ model }) => (
      <>
        {model.best_quant} <span className="muted">{model.runtime}</span>
      </>
    ),
  },
  {
    id: "advice",
    header: words.advice,
    cell: ({ advice }) => advice !== "" && <span className="muted">{advice}</span>,
    isWide: true,
  },
  { id: "deploy", header: "", cell: (row) => <Actions row={row} /> },
];

const WITHOUT_ADVICE = COLUMNS.filter(({ id }) => id !== "advice");

/** With the quantization that scores best. */
function ToSimulate({ model: { name, best_quant } }: { readonly model: AdvisedRow["model"] }) {
  return (
    <Link
      to={"/simulate" as "/"}
      search={{ model: name, quantization: best_quant } as never}
      className="link"
      title={words.simulate}
    >
      {name}
    </Link>
  );
}

function Speed({ row: { machine, model } }: { readonly row: AdvisedRow }) {
  const measured = machine?.tokensPerSecond ?? null;
  const basis = machine?.basis === "live" ? words.live : words.measured;
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
      {words.deploy}
    </button>
  );
}
