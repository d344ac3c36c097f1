/** The tab Nodes: a card for each machine. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { hrefOfMachine } from "../../address/href.ts";
import { keepNamespace, useSearchParam } from "../../address/search.ts";
import { type DensityNode, densityNodes } from "../../api/density.ts";
import { Filter } from "../../parts/filter.tsx";
import { formatCount, formatGib } from "../../parts/format.ts";
import { Empty, Failure, Skeleton } from "../../parts/notice.tsx";
import { Tag } from "../../parts/state.tsx";
import { hasWords } from "../../parts/words.ts";
import { densityText } from "../../texts/density.ts";
import { text } from "../../texts/text.ts";

const words = densityText.nodes;
const MAX_CARDS = 120;
const REFRESH_MS = 15_000;

export function NodesTab() {
  const [filter, setFilter] = useSearchParam("q");
  const { data, error, refetch } = useQuery({
    queryKey: ["density-nodes"],
    queryFn: ({ signal }) => densityNodes(signal),
    refetchInterval: REFRESH_MS,
  });
  if (error !== null && data === undefined) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Skeleton />;
  if (data.length === 0)
    return <Empty title={words.empty} why={words.emptyWhy} command={text.hosts.emptyCommand} />;
  const found = data.filter(({ nodeName, system }) =>
    hasWords([nodeName, system.cpu_name, system.gpu_name ?? "", system.backend], filter),
  );
  return (
    <div className="stack">
      <div className="row">
        <Filter label={words.filter} words={filter} onChange={setFilter} />
        <span className="muted small number">{text.table.count(found.length, data.length)}</span>
      </div>
      <ul className="density-cards">
        {found.slice(0, MAX_CARDS).map((node) => (
          <li key={`${node.kind}/${node.nodeName}`}>
            <NodeCard node={node} />
          </li>
        ))}
      </ul>
      {found.length > MAX_CARDS && <p className="muted">{words.more(found.length - MAX_CARDS)}</p>}
    </div>
  );
}

function NodeCard({ node }: { readonly node: DensityNode }) {
  const { kind, nodeName, system, modelFitCount, bestScore, memoryLeftGb, memoryBudgetGb, problem, stale } =
    node;
  const path = hrefOfMachine({ kind, name: nodeName });
  return (
    <Link to={path as "/"} search={keepNamespace} className="card density-card">
      <div className="spread">
        <h2 className="truncate">{nodeName}</h2>
        <span className="row">
          {stale && <Tag level="warn">{words.stale}</Tag>}
          {!node.schedulable && <Tag>{words.cordoned}</Tag>}
        </span>
      </div>
      <div className="density-fits">
        <span className="figure-value">{formatCount(modelFitCount)}</span>
        <span className="muted small">{words.fits}</span>
        <span className="density-best small">
          <span className="muted">{words.best}</span> {bestScore.toFixed(1)}
        </span>
      </div>
      <dl className="density-facts small">
        <Row label={words.cpu} value={`${system.cpu_name} · ${words.cores(system.cpu_cores)}`} />
        <Row
          label={words.memory}
          value={words.free(formatGib(memoryLeftGb ?? undefined), formatGib(memoryBudgetGb ?? undefined))}
        />
        <Row label={words.gpu} value={gpuOf(node)} />
        <Row label={words.backend} value={system.backend} />
      </dl>
      {problem !== undefined && <p className="small muted">{problem}</p>}
    </Link>
  );
}

function Row({ label, value }: { readonly label: string; readonly value: string }) {
  return (
    <>
      <dt>{label}</dt>
      <dd className="truncate">{value}</dd>
    </>
  );
}

function gpuOf({ system: { has_gpu, gpu_name, gpu_count } }: DensityNode): string {
  if (!has_gpu) return words.noGpu;
  return gpu_count > 1 ? `${gpu_count} × ${gpu_name ?? ""}` : (gpu_name ?? "1");
}
