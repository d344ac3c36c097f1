/** The tab Model catalog: every model with its best machine. */

import { useQuery } from "@tanstack/react-query";
import { useCallback } from "react";
import { useSearchParam } from "../../address/search.ts";
import { type DensityModel, densityCatalog } from "../../api/density.ts";
import { Segments } from "../../parts/buttons.tsx";
import { formatCount, formatGib } from "../../parts/format.ts";
import type { ListFilter } from "../../parts/table/filters.tsx";
import { type Column, figure, fitColumn, scoreColumn, sourceOf, Table } from "../../parts/table/table.tsx";
import { adviceForTooTight } from "./advice.ts";

const FRESH_MS = 30_000;

const FILTER: ListFilter<DensityModel> = {
  label: "Filter by model or machine",
  textsOf: ({ modelName, bestNode }) => [modelName, bestNode],
};

export function CatalogTab() {
  const [fit, setFit] = useSearchParam("fit", "all");
  const query = useQuery({
    queryKey: ["density-catalog"],
    queryFn: ({ signal }) => densityCatalog(signal),
    staleTime: FRESH_MS,
  });
  const rows = query.data ?? NONE;
  const isChosen = useCallback(
    ({ fitLevel }: DensityModel) => fit === "all" || (fit === "fits") === (fitLevel !== "too_tight"),
    [fit],
  );
  return (
    <Table
      label="Model catalog"
      rows={rows}
      of={sourceOf(query)}
      keyOf={({ modelName }) => modelName}
      columns={rows.filter(isChosen).some((row) => adviceOf(row) !== "") ? COLUMNS : WITHOUT_ADVICE}
      none="The catalog has no models."
      list={{
        id: "density-catalog",
        hrefOf: ({ modelName }) => `/fits?tab=query&model=${encodeURIComponent(modelName)}`,
        defaultSort: "model",
        filter: FILTER,
        also: isChosen,
        toolbar: (
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
        ),
      }}
    />
  );
}

const NONE: readonly DensityModel[] = [];

const COLUMNS: readonly Column<DensityModel>[] = [
  {
    id: "model",
    header: "Model",
    value: ({ modelName }) => modelName,
    width: "minmax(128px, 2.4fr)",
  },
  fitColumn(({ fitLevel }) => fitLevel),
  scoreColumn("Best score", ({ bestScore }) => bestScore),
  figure("memory", "Memory needed", ({ nodes }) => nodes[0]?.requiredMemoryGb, formatGib, "96px"),
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
  { ...figure("machines", "Machines", ({ nodeCount }) => nodeCount, formatCount, "80px"), isWideOnly: true },
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
