/** What replicas hold now, by model and machine, and by namespace. */
import { useQuery } from "@tanstack/react-query";
import { densityCosts, type ModelCost, type NamespaceTotal } from "../../api/density.ts";
import { formatCount, formatGib } from "../../parts/format.ts";
import { Failure, Skeleton } from "../../parts/notice.tsx";
import { Section } from "../../parts/page.tsx";
import { type PlainColumn, PlainTable } from "../../parts/plain-table.tsx";
import { usageText } from "../../texts/usage.ts";

const REFRESH_MS = 30_000;
const words = usageText.costColumns;

export function CostSection() {
  const { data, error, refetch } = useQuery({
    queryKey: ["density-cost"],
    queryFn: ({ signal }) => densityCosts(signal),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Section title={usageText.cost}>
      <p className="muted prose">{usageText.costWhy}</p>
      {error !== null && data === undefined && <Failure error={error} onRetry={() => void refetch()} />}
      {data === undefined && error === null && <Skeleton rows={3} />}
      {data !== undefined && (
        <PlainTable
          label={usageText.cost}
          rows={data.models}
          keyOf={({ namespace, service, placedNode }) => `${namespace}/${service} ${placedNode}`}
          columns={MODELS}
          none={usageText.noCost}
        />
      )}
      {data !== undefined && data.namespaces.length > 1 && (
        <PlainTable
          label={usageText.byNamespace}
          rows={data.namespaces}
          keyOf={({ namespace }) => namespace}
          columns={NAMESPACES}
          none={usageText.noCost}
        />
      )}
    </Section>
  );
}

const MODELS: readonly PlainColumn<ModelCost>[] = [
  { id: "model", header: words.model, cell: ({ name }) => <bdi>{name}</bdi> },
  { id: "namespace", header: words.namespace, cell: ({ namespace }) => namespace },
  { id: "machine", header: words.machine, cell: ({ placedNode }) => <bdi>{placedNode}</bdi> },
  { id: "phase", header: words.phase, cell: ({ phase }) => phase },
  { id: "replicas", header: words.replicas, cell: ({ replicas }) => replicas, isNumber: true },
  {
    id: "memory",
    header: words.memory,
    cell: ({ memoryRequiredGb }) => formatGib(memoryRequiredGb),
    isNumber: true,
  },
  {
    id: "share",
    header: words.share,
    cell: ({ utilizationPct }) => `${utilizationPct.toFixed(1)} %`,
    isNumber: true,
  },
  { id: "gpus", header: words.gpus, cell: ({ gpu }) => formatCount(gpu), isNumber: true },
];

const NAMESPACES: readonly PlainColumn<NamespaceTotal>[] = [
  {
    id: "namespace",
    header: words.namespace,
    cell: ({ namespace }) => <bdi>{namespace}</bdi>,
  },
  { id: "models", header: words.models, cell: ({ modelCount }) => modelCount, isNumber: true },
  {
    id: "memory",
    header: words.memory,
    cell: ({ totalMemoryGb }) => formatGib(totalMemoryGb),
    isNumber: true,
  },
  { id: "gpus", header: words.gpus, cell: ({ totalGpu }) => formatCount(totalGpu), isNumber: true },
];
