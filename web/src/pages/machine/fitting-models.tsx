/** The models of the catalog that this host can take now, in addition to what runs on it. */

import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useSetSearch } from "../../address/search.ts";
import { fitsOfMachine, type MachineFits, type ModelFit } from "../../api/density.ts";
import { Empty } from "../../parts/notices.tsx";
import { EstimatedSpeed } from "../../parts/states.tsx";
import type { ListFilter } from "../../parts/table/filters.tsx";
import { type Column, fitColumn, scoreColumn, sourceOf, Table } from "../../parts/table/table.tsx";

const REFRESH_MS = 15_000;

interface FittingModel extends ModelFit {
  readonly freeGb: number;
}

export function FittingModels({ name }: { readonly name: string }) {
  const query = useQuery({
    queryKey: ["machine-fits", name],
    queryFn: ({ signal }) => fitsOfMachine(name, signal),
    refetchInterval: REFRESH_MS,
  });
  const { data } = query;
  const fitting = useMemo((): readonly FittingModel[] => {
    const freeGb = data?.MemoryLeftGb ?? 0;
    return (data?.ModelFits ?? [])
      .filter(({ memory_required_gb: needed }) => needed <= freeGb)
      .map((fit) => ({ ...fit, freeGb }));
  }, [data]);
  return (
    <div className="stack">
      {data !== undefined && fitting.length > 0 && (
        <p className="muted prose">
          {`Models of the catalog that this host can run now, in addition to its replicas, with 8,192 tokens of context. Without its replicas it can run ${data.ModelFits.length}. The controller decides on which machine a deployed model is placed: it may choose another one.`}
        </p>
      )}
      <Table
        label="Models that fit"
        rows={fitting}
        of={sourceOf(query)}
        keyOf={(fit) => fit.name}
        columns={COLUMNS}
        none={
          data !== undefined && <Empty title="No model of the catalog fits now" why={emptyReason(data)} />
        }
        list={{ id: "host-fits", defaultSort: "level", filter: FILTER }}
      />
    </div>
  );
}

const FILTER: ListFilter<FittingModel> = { textsOf: ({ name, best_quant }) => [name, best_quant] };

function emptyReason({ ModelFits: fits, Schedulable: isSchedulable }: MachineFits): string {
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
  fitColumn(
    ({ fit_level }) => fit_level,
    ({ score }) => score,
  ),
  scoreColumn("Score", ({ score }) => score),
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
    cell: ({ name }) => <DeployThis name={name} />,
    width: "56px",
  },
];
