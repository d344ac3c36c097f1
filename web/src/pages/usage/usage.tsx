/** The page Usage. */
import { useQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";
import { useMemo } from "react";
import {
  chargedTokens,
  readUsageRecord,
  renderUsageCsv,
  sumUsage,
  type UsageConfigMap,
  type UsageDimension,
  type UsageRecord,
  type UsageRow,
} from "../../../../src/gateway/usage.ts";
import { useSearchParam } from "../../address/search.ts";
import { densityCosts, type ModelCost, type NamespaceTotal } from "../../api/density.ts";
import { type ApiObject, listObjects } from "../../api/kube.ts";
import { ConsoleError } from "../../api/request.ts";
import { useNow } from "../../live/hooks.ts";
import { Button, Segments, saveFile } from "../../parts/buttons.tsx";
import { Chart } from "../../parts/chart/chart.tsx";
import { formatCount, formatGib, formatPercent, formatRate } from "../../parts/format.ts";
import { Empty, Failure, Skeleton } from "../../parts/notices.tsx";
import { Page, Section } from "../../parts/page.tsx";
import { type Column, figure, sourceOf, Table } from "../../parts/table/table.tsx";
import { daysUntil, monthsOf, totalsBy, usageSeries } from "./usage-series.ts";

const DIMENSIONS = ["key", "model", "namespace"] as const satisfies readonly UsageDimension[];
const DIMENSION_WORDS = { key: "Key", model: "Model", namespace: "Namespace" } as const;
const RANGES = ["7", "30", "90"];
const REFRESH_MS = 60_000;
const HOUR_MS = 3_600_000;

/** The page Usage. */
export function UsagePage() {
  const [chosen, setBy] = useSearchParam("by", "model");
  const [range, setRange] = useSearchParam("days", "30");
  const by = DIMENSIONS.find((one) => one === chosen) ?? "model";
  const hour = Math.floor(useNow(REFRESH_MS) / HOUR_MS);
  const days = useMemo(() => daysUntil(hour * HOUR_MS, Number(range) || 30), [hour, range]);
  const months = useMemo(() => monthsOf(days), [days]);
  const { data, error, refetch } = useQuery({
    queryKey: ["usage", months],
    queryFn: ({ signal }) => usageRecords(months, signal),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Page
      title="Usage"
      subtitle="Tokens that the gateways counted, by day in UTC."
      actions={
        <>
          <Segments
            label="Group by"
            value={by}
            options={DIMENSIONS.map((id) => ({ id, label: DIMENSION_WORDS[id] }))}
            onChange={setBy}
          />
          <Segments
            label="Range"
            value={range}
            options={RANGES.map((id) => ({ id, label: `${Number(id)} days` }))}
            onChange={setRange}
          />
        </>
      }
      isWide
    >
      {error !== null && data === undefined && <Failure error={error} onRetry={() => void refetch()} />}
      {data === undefined && error === null && <Skeleton />}
      {data !== undefined && <Usage records={data} days={days} by={by} />}
      <CostSection />
    </Page>
  );
}

function Usage({
  records,
  days,
  by,
}: {
  readonly records: readonly UsageRecord[];
  readonly days: readonly string[];
  readonly by: (typeof DIMENSIONS)[number];
}) {
  const totals = useMemo(() => totalsBy(records, days, by), [records, days, by]);
  const series = useMemo(
    () =>
      usageSeries(records, days, by).map(({ name, values }, index) => ({
        label: name === "" ? "Other" : name,
        values,
        color: name === "" ? "--idle" : `--series-${index + 1}`,
      })),
    [records, days, by],
  );
  const times = useMemo(() => days.map((day) => Date.parse(`${day}T00:00:00Z`) / 1_000), [days]);
  if (totals.length === 0)
    return (
      <Empty
        title="No usage in this range"
        why="The gateway writes the usage of each day. Send a request through it, and it appears here within a minute."
      />
    );
  return (
    <>
      <div className="card">
        <Chart
          label={`Tokens per day by ${by}`}
          times={times}
          series={series}
          kind="bars"
          format={formatRate}
          isDaily
        />
      </div>
      <div className="stack">
        <div className="row end">
          <Button icon={<Download size={14} aria-hidden />} onClick={() => save(records, days)}>
            Download as CSV
          </Button>
        </div>
        <Table
          label="Tokens"
          rows={totals}
          keyOf={(row) => row[by]}
          columns={columnsFor(by, totals)}
          none="No usage in this range"
        />
      </div>
    </>
  );
}

function columnsFor(by: (typeof DIMENSIONS)[number], rows: readonly UsageRow[]): readonly Column<UsageRow>[] {
  const all = rows.reduce((sum, row) => sum + chargedTokens(row), 0);
  const count = (id: "requests" | "tokensIn" | "tokensCached" | "tokensOut", header: string) => ({
    id,
    header,
    cell: (row: UsageRow) => formatCount(row[id]),
    isNumber: true,
  });
  return [
    { id: by, header: DIMENSION_WORDS[by], cell: (row) => <bdi>{row[by]}</bdi> },
    count("requests", "Requests"),
    count("tokensIn", "Prompt tokens"),
    count("tokensCached", "of these cached"),
    count("tokensOut", "Generated tokens"),
    {
      id: "total",
      header: "Tokens",
      cell: (row) => formatCount(chargedTokens(row)),
      isNumber: true,
    },
    {
      id: "share",
      header: "Share",
      cell: (row) => formatPercent(all === 0 ? 0 : chargedTokens(row) / all),
      isNumber: true,
    },
  ];
}

/** All dimensions, so that a spreadsheet can group as it needs. */
function save(records: readonly UsageRecord[], days: readonly string[]): void {
  const shown = new Set(days);
  const rows = sumUsage(records.filter(({ day }) => shown.has(day)).flatMap((record) => record.rows));
  saveFile(
    `metalbridge-usage-${days[0] ?? ""}-to-${days.at(-1) ?? ""}.csv`,
    "text/csv",
    renderUsageCsv(rows),
  );
}

const LABEL_MONTH = "metalbridge.dev/usage-month";
const GATEWAY_NAMESPACE = "metalbridge-system";

/** The usage records of some months, from all namespaces, or from that of the gateway for readers with fewer rights. */
async function usageRecords(months: readonly string[], signal: AbortSignal): Promise<readonly UsageRecord[]> {
  const query = { labelSelector: `${LABEL_MONTH} in (${months.join(",")})`, limit: "2000" };
  const list = (namespace?: string) =>
    listObjects<ApiObject & UsageConfigMap>(
      { resource: "configmaps", ...(namespace !== undefined && { namespace }) },
      query,
      signal,
    );
  const objects = await list().catch((error: unknown) => {
    if (error instanceof ConsoleError && error.status === 403) return list(GATEWAY_NAMESPACE);
    throw error;
  });
  return objects.flatMap((object) => readUsageRecord(object) ?? []);
}

const HELD_REFRESH_MS = 30_000;

/** What replicas hold now, by model and machine, and by namespace. */
export function CostSection() {
  const query = useQuery({
    queryKey: ["density-cost"],
    queryFn: ({ signal }) => densityCosts(signal),
    refetchInterval: HELD_REFRESH_MS,
  });
  const { models = [], namespaces = [] } = query.data ?? {};
  return (
    <Section title="Memory held now">
      <p className="muted prose">Memory and GPUs that replicas hold at this moment, by model and machine.</p>
      <Table
        label="Memory held now"
        rows={models}
        of={sourceOf(query)}
        keyOf={({ namespace, service, placedNode }) => `${namespace}/${service} ${placedNode}`}
        columns={MODELS}
        none="No replica holds memory."
      />
      {namespaces.length > 1 && (
        <Table
          label="By namespace"
          rows={namespaces}
          keyOf={({ namespace }) => namespace}
          columns={NAMESPACES}
          none=""
        />
      )}
    </Section>
  );
}

const MODELS: readonly Column<ModelCost>[] = [
  { id: "model", header: "Model", cell: ({ name }) => <bdi>{name}</bdi> },
  { id: "namespace", header: "Namespace", cell: ({ namespace }) => namespace },
  { id: "machine", header: "Machine", cell: ({ placedNode }) => <bdi>{placedNode}</bdi> },
  { id: "phase", header: "State", cell: ({ phase }) => phase },
  { id: "replicas", header: "Replicas", cell: ({ replicas }) => replicas, isNumber: true },
  figure("memory", "Memory", ({ memoryRequiredGb }) => memoryRequiredGb, formatGib),
  {
    id: "share",
    header: "Of the machine",
    cell: ({ utilizationPct }) => `${utilizationPct.toFixed(1)} %`,
    isNumber: true,
  },
  { id: "gpus", header: "GPUs", cell: ({ gpu }) => formatCount(gpu), isNumber: true },
];

const NAMESPACES: readonly Column<NamespaceTotal>[] = [
  {
    id: "namespace",
    header: "Namespace",
    cell: ({ namespace }) => <bdi>{namespace}</bdi>,
  },
  { id: "models", header: "Models", cell: ({ modelCount }) => modelCount, isNumber: true },
  figure("memory", "Memory", ({ totalMemoryGb }) => totalMemoryGb, formatGib),
  { id: "gpus", header: "GPUs", cell: ({ totalGpu }) => formatCount(totalGpu), isNumber: true },
];
