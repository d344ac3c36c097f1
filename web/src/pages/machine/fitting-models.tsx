/** The models of the catalog that this host can take now, in addition to what runs on it. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useSearchParam, useSetSearch } from "../../address/search.ts";
import { fitsOfMachine, type MachineFits, type ModelFit } from "../../api/density.ts";
import { Empty, Failure, Skeleton } from "../../parts/notices.tsx";
import { type Column, DataTable } from "../../parts/table/table.tsx";
import { EstimatedSpeed, FIT_WORDS, Fit, LEVELS_IN_ORDER, Score } from "../../parts/states.tsx";
import { countOf, Filter, hasWords } from "../../parts/table/filters.tsx";

const MAX_SCORE = 100;
const REFRESH_MS = 15_000;

interface FittingModel extends ModelFit {
  readonly freeGb: number;
}

export function FittingModels({ name }: { readonly name: string }) {
  const [filter, setFilter] = useSearchParam("q");
  const { data, error, refetch } = useQuery({
    queryKey: ["machine-fits", name],
    queryFn: ({ signal }) => fitsOfMachine(name, signal),
    refetchInterval: REFRESH_MS,
  });
  const fitting = useMemo((): readonly FittingModel[] => {
    const freeGb = data?.MemoryLeftGb ?? 0;
    return (data?.ModelFits ?? [])
      .filter(({ memory_required_gb: needed }) => needed <= freeGb)
      .map((fit) => ({ ...fit, freeGb }));
  }, [data]);
  if (error !== null && data === undefined) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Skeleton rows={8} />;
  if (fitting.length === 0) return <Empty title="No model of the catalog fits now" why={whyNone(data)} />;
  const shown = fitting.filter((fit) => hasWords([fit.name, fit.best_quant], filter));
  return (
    <div className="stack">
      <p className="muted prose">
        {`Models of the catalog that this host can run now, in addition to its replicas, with 8,192 tokens of context. Without its replicas it can run ${data.ModelFits.length}. The controller decides on which machine a deployed model is placed: it may choose another one.`}
      </p>
      <DataTable
        id="host-fits"
        label={"Models that fit"}
        rows={shown}
        keyOf={(fit) => fit.name}
        columns={COLUMNS}
        defaultSort="level"
        toolbar={
          <>
            <Filter label="Filter" words={filter} onChange={setFilter} />
            <span className="muted small number">{countOf(shown.length, fitting.length)}</span>
          </>
        }
      />
    </div>
  );
}

function whyNone({ ModelFits: fits, Schedulable: isSchedulable }: MachineFits): string {
  if (!isSchedulable) return "The host is cordoned: it takes no new replicas until it is uncordoned.";
  return fits.length === 0
    ? "The host has too little memory for engines, or has not reported it yet."
    : `${fits.length} models fit the host without its replicas. Stop or move a replica to free memory.`;
}

function DeployThis({ name }: { readonly name: string }) {
  const setSearch = useSetSearch();
  return (
    <button
      type="button"
      className="link-button"
      aria-label={`Deploy ${name}`}
      onClick={() => setSearch({ deploy: name })}
    >
      Deploy
    </button>
  );
}

const COLUMNS: readonly Column<FittingModel>[] = [
  { id: "model", header: "Model", value: ({ name }) => name, width: "minmax(120px, 2fr)" },
  {
    id: "level",
    header: "Fit",
    // Within a level, the best score first.
    value: ({ fit_level: level, score }) => LEVELS_IN_ORDER.indexOf(level) * MAX_SCORE - score,
    copied: ({ fit_level: level }) => FIT_WORDS[level].word,
    cell: ({ fit_level: level }) => <Fit level={level} />,
    width: "minmax(108px, 0.8fr)",
  },
  {
    id: "score",
    header: "Score",
    value: ({ score }) => score,
    cell: ({ score }) => <Score value={score} />,
    width: "minmax(96px, 1fr)",
  },
  {
    id: "speed",
    header: "Tokens/s",
    value: ({ estimated_tps: speed }) => speed,
    cell: (fit) => <EstimatedSpeed fit={fit} />,
    width: "minmax(112px, 1fr)",
    isNumber: true,
  },
  {
    id: "memory",
    header: "Memory needed / free",
    value: ({ memory_required_gb: needed }) => needed,
    cell: ({ memory_required_gb: needed, freeGb }) => `${needed.toFixed(1)} / ${freeGb.toFixed(1)} GiB`,
    width: "minmax(128px, 1fr)",
    isNumber: true,
  },
  {
    id: "quantization",
    header: "Quantization",
    value: ({ best_quant: quantization, runtime }) => `${quantization} ${runtime}`,
    width: "minmax(120px, 1fr)",
    isWideOnly: true,
  },
  {
    id: "deploy",
    header: "",
    value: () => undefined,
    cell: ({ name }) => <DeployThis name={name} />,
    width: "56px",
  },
];
