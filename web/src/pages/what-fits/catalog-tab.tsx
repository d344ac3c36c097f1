/** The tab Model catalog: every model with its best machine. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useSearchParam } from "../../address/search.ts";
import { type DensityModel, densityCatalog } from "../../api/density.ts";
import { formatCount, formatGib } from "../../parts/format.ts";
import { Failure, Skeleton } from "../../parts/notices.tsx";
import { type Column, DataTable } from "../../parts/table/table.tsx";
import { adviceForTooTight } from "./advice.ts";
import { Segments } from "../../parts/buttons.tsx";
import { FIT_WORDS, Fit, LEVELS_IN_ORDER, Score } from "../../parts/states.tsx";
import { countOf, Filter, hasWords } from "../../parts/table/filters.tsx";

const FRESH_MS = 30_000;

export function CatalogTab() {
  const [filter, setFilter] = useSearchParam("q");
  const [fit, setFit] = useSearchParam("fit", "all");
  const { data, error, refetch } = useQuery({
    queryKey: ["density-catalog"],
    queryFn: ({ signal }) => densityCatalog(signal),
    staleTime: FRESH_MS,
  });
  const shown = useMemo(
    () =>
      (data ?? []).filter(
        ({ modelName, bestNode, fitLevel }) =>
          (fit === "all" || (fit === "fits") === (fitLevel !== "too_tight")) &&
          hasWords([modelName, bestNode], filter),
      ),
    [data, filter, fit],
  );
  if (error !== null && data === undefined) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Skeleton rows={12} />;
  return (
    <DataTable
      id="density-catalog"
      label={"Model catalog"}
      rows={shown}
      keyOf={({ modelName }) => modelName}
      columns={shown.some((row) => adviceOf(row) !== "") ? COLUMNS : WITHOUT_ADVICE}
      hrefOf={({ modelName }) => `/fits?tab=query&model=${encodeURIComponent(modelName)}`}
      defaultSort="model"
      toolbar={
        <>
          <Filter label={"Filter by model or machine"} words={filter} onChange={setFilter} />
          <Segments
            label="Fit"
            value={fit}
            options={[
              { id: "all", label: "All" },
              { id: "fits", label: "Fits" },
              { id: "tight", label: "Too tight" },
            ]}
            onChange={setFit}
          />
          <span className="muted small number">{countOf(shown.length, data.length)}</span>
        </>
      }
    />
  );
}

const COLUMNS: readonly Column<DensityModel>[] = [
  {
    id: "model",
    header: "Model",
    value: ({ modelName }) => modelName,
    width: "minmax(128px, 2.4fr)",
  },
  {
    id: "fit",
    header: "Fit",
    value: ({ fitLevel }) => LEVELS_IN_ORDER.indexOf(fitLevel),
    copied: ({ fitLevel }) => FIT_WORDS[fitLevel].word,
    cell: ({ fitLevel }) => <Fit level={fitLevel} />,
    width: "minmax(108px, 0.8fr)",
  },
  {
    id: "score",
    header: "Best score",
    value: ({ bestScore }) => bestScore,
    cell: ({ bestScore }) => <Score value={bestScore} />,
    width: "minmax(96px, 1fr)",
  },
  {
    id: "memory",
    header: "Memory needed",
    value: ({ nodes }) => nodes[0]?.requiredMemoryGb,
    cell: ({ nodes }) => formatGib(nodes[0]?.requiredMemoryGb),
    width: "96px",
    isNumber: true,
  },
  {
    id: "quantization",
    header: "Quantization",
    value: ({ nodes }) => nodes[0]?.quantization,
    width: "112px",
    isWideOnly: true,
  },
  {
    id: "node",
    header: "Best machine",
    value: ({ bestNode }) => bestNode,
    width: "minmax(88px, 1.2fr)",
  },
  {
    id: "machines",
    header: "Machines",
    value: ({ nodeCount }) => nodeCount,
    cell: ({ nodeCount }) => formatCount(nodeCount),
    width: "80px",
    isNumber: true,
    isWideOnly: true,
  },
  {
    id: "advice",
    header: "What would make it fit",
    value: adviceOf,
    cell: (row) => (
      <span className="truncate muted" title={adviceOf(row)}>
        {adviceOf(row)}
      </span>
    ),
    width: "minmax(88px, 3fr)",
  },
];

const WITHOUT_ADVICE = COLUMNS.filter(({ id }) => id !== "advice");

/** Empty for a model that fits. */
function adviceOf({ fitLevel, nodes: [best] }: DensityModel): string {
  if (fitLevel !== "too_tight" || best === undefined) return "";
  return adviceForTooTight(best.requiredMemoryGb - best.availableMemoryGb, best.quantization);
}
