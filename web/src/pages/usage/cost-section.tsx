/** What replicas hold now, by model and machine, and by namespace. */
import { useQuery } from "@tanstack/react-query";
import { densityCosts, type ModelCost, type NamespaceTotal } from "../../api/density.ts";
import { formatCount, formatGib } from "../../parts/format.ts";
import { Failure, Skeleton } from "../../parts/notice.tsx";
import { Section } from "../../parts/page.tsx";
import { type PlainColumn, PlainTable } from "../../parts/plain-table.tsx";

const REFRESH_MS = 30_000;

export function CostSection() {
  const { data, error, refetch } = useQuery({
    queryKey: ["density-cost"],
    queryFn: ({ signal }) => densityCosts(signal),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Section title="Memory held now">
      <p className="muted prose">Memory and GPUs that replicas hold at this moment, by model and machine.</p>
      {error !== null && data === undefined && <Failure error={error} onRetry={() => void refetch()} />}
      {data === undefined && error === null && <Skeleton rows={3} />}
      {data !== undefined && (
        <PlainTable
          label="Memory held now"
          rows={data.models}
          keyOf={({ namespace, service, placedNode }) => `${namespace}/${service} ${placedNode}`}
          columns={MODELS}
          none="No replica holds memory."
        />
      )}
      {data !== undefined && data.namespaces.length > 1 && (
        <PlainTable
          label="By namespace"
          rows={data.namespaces}
          keyOf={({ namespace }) => namespace}
          columns={NAMESPACES}
          none="No replica holds memory."
        />
      )}
    </Section>
  );
}

const MODELS: readonly PlainColumn<ModelCost>[] = [
  { id: "model", header: "Model", cell: ({ name }) => <bdi>{name}</bdi> },
  { id: "namespace", header: "Namespace", cell: ({ namespace }) => namespace },
  { id: "machine", header: "Machine", cell: ({ placedNode }) => <bdi>{placedNode}</bdi> },
  { id: "phase", header: "State", cell: ({ phase }) => phase },
  { id: "replicas", header: "Replicas", cell: ({ replicas }) => replicas, isNumber: true },
  {
    id: "memory",
    header: "Memory",
    cell: ({ memoryRequiredGb }) => formatGib(memoryRequiredGb),
    isNumber: true,
  },
  {
    id: "share",
    header: "Of the machine",
    cell: ({ utilizationPct }) => `${utilizationPct.toFixed(1)} %`,
    isNumber: true,
  },
  { id: "gpus", header: "GPUs", cell: ({ gpu }) => formatCount(gpu), isNumber: true },
];

const NAMESPACES: readonly PlainColumn<NamespaceTotal>[] = [
  {
    id: "namespace",
    header: "Namespace",
    cell: ({ namespace }) => <bdi>{namespace}</bdi>,
  },
  { id: "models", header: "Models", cell: ({ modelCount }) => modelCount, isNumber: true },
  {
    id: "memory",
    header: "Memory",
    cell: ({ totalMemoryGb }) => formatGib(totalMemoryGb),
    isNumber: true,
  },
  { id: "gpus", header: "GPUs", cell: ({ totalGpu }) => formatCount(totalGpu), isNumber: true },
];
