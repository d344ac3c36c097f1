/** The page What fits: which models fit which machines, and where one would go. */

import { useQuery } from "@tanstack/react-query";
import { useSearchParam, useSetSearch } from "../../address/search.ts";
import { type DensityNode, densityNodes } from "../../api/density.ts";
import { useList } from "../../live/hooks.ts";
import { formatCount, GIB } from "../../parts/format.ts";
import { Failure, Skeleton } from "../../parts/notices.tsx";
import { Page, Tabs } from "../../parts/page.tsx";
import { CatalogTab } from "./catalog-tab.tsx";
import { QueryTab } from "./query-tab.tsx";
import "./what-fits.css";
import { type CardMachine, MachineCard, NoMachines } from "../../parts/machines.tsx";
import { type ListFilter, useFilter } from "../../parts/table/filters.tsx";

export function WhatFitsPage() {
  const [tab] = useSearchParam("tab", "nodes");
  const setSearch = useSetSearch();
  return (
    <Page
      title="What fits"
      subtitle="Which models fit which machines, and how well: 0 to 100, for 8,192 tokens of context."
      isWide
    >
      <Tabs
        value={tab}
        onChange={(next) => setSearch({ tab: next, q: undefined, sort: undefined })}
        tabs={[
          { id: "nodes", label: "Nodes", content: () => <NodesTab /> },
          { id: "catalog", label: "Model catalog", content: () => <CatalogTab /> },
          { id: "query", label: "Query", content: () => <QueryTab /> },
        ]}
      />
    </Page>
  );
}

const MAX_CARDS = 120;
const REFRESH_MS = 15_000;

const NONE: readonly DensityNode[] = [];
const FILTER: ListFilter<DensityNode> = {
  label: "Filter by name, chip or backend",
  textsOf: ({ nodeName, system }) => [nodeName, system.cpu_name, system.gpu_name ?? "", system.backend],
};

/** The tab Nodes: a card for each machine. */
function NodesTab() {
  const hosts = useList("hosts").rows;
  const { data, error, refetch } = useQuery({
    queryKey: ["density-nodes"],
    queryFn: ({ signal }) => densityNodes(signal),
    refetchInterval: REFRESH_MS,
  });
  const { found, bar } = useFilter(data ?? NONE, FILTER);
  if (error !== null && data === undefined) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Skeleton />;
  if (data.length === 0)
    return <NoMachines why="Every host and node of the cluster appears here with the models that fit it." />;
  const rows = new Map(hosts.map((host) => [`${host.kind}/${host.name}`, host]));
  return (
    <div className="stack">
      <div className="row">{bar}</div>
      <ul className="cards">
        {found.slice(0, MAX_CARDS).map((node) => (
          <li key={`${node.kind}/${node.nodeName}`}>
            <MachineCard
              machine={rows.get(`${node.kind}/${node.nodeName}`) ?? machineOf(node)}
              about={aboutOf(node)}
              facts={[
                ["Models that fit", formatCount(node.modelFitCount)],
                ["Best score", node.bestScore.toFixed(1)],
                ["Backend", node.system.backend],
              ]}
            >
              {node.problem !== undefined && <p className="small muted">{node.problem}</p>}
            </MachineCard>
          </li>
        ))}
      </ul>
      {found.length > MAX_CARDS && (
        <p className="muted">{`${found.length - MAX_CARDS} more: use the filter.`}</p>
      )}
    </div>
  );
}

/** For a reader who may not list hosts, and so does not see whose claims these are. */
function machineOf(node: DensityNode): CardMachine {
  const { kind, nodeName, schedulable, stale, memoryBudgetGb, memoryLeftGb } = node;
  const [budgetBytes, leftBytes] = [(memoryBudgetGb ?? 0) * GIB, (memoryLeftGb ?? 0) * GIB];
  const bytes = Math.max(0, budgetBytes - leftBytes);
  // A cordoned machine has no memory left, whatever runs there.
  const isKnown = schedulable && memoryLeftGb !== undefined && memoryLeftGb !== null;
  const claims = isKnown ? [{ service: "", replica: "", phase: "", bytes }] : [];
  return {
    kind,
    name: nodeName,
    isCordoned: !schedulable,
    isStale: stale,
    budgetBytes,
    reserveBytes: 0,
    leftBytes,
    claims,
  };
}

/** The GPU of a Mac has the name of its processor. */
function aboutOf({ system }: DensityNode): readonly string[] {
  const { cpu_name: cpu, cpu_cores: cores, has_gpu, gpu_name, gpu_count } = system;
  const gpu = gpu_count > 1 ? `${gpu_count} × ${gpu_name ?? "GPU"}` : (gpu_name ?? "1 GPU");
  return [cpu, cores === 1 ? "1 core" : `${cores} cores`, has_gpu && gpu !== cpu ? gpu : ""];
}
