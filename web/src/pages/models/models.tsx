/** All models: where their weights are, what is downloaded, who uses them. */

import type { DownloadRow, ModelRow } from "../../../../src/console/rows.ts";
import { useHiddenNamespace } from "../../address/sight.ts";
import { useList } from "../../live/hooks.ts";
import { formatBytes, formatCount } from "../../parts/format.ts";
import { Empty, Failure } from "../../parts/notices.tsx";
import { Page } from "../../parts/page.tsx";
import { type Column, figure, namespaceColumn, namespacedKey, Table } from "../../parts/table/table.tsx";
import "./models.css";
import { shareOf, sumOfDownloads } from "../../../../src/verdicts/download.ts";
import { useInNamespace } from "../../address/search.ts";
import { hrefOfModel } from "../../address/to.tsx";
import { countReady, Progress, State } from "../../parts/states.tsx";
import type { ListFilter } from "../../parts/table/filters.tsx";

export function ModelsPage() {
  const models = useList("models");
  const here = useInNamespace(models.rows);
  const subtitle = here.length > 0 ? `${countReady(here)} of ${here.length} ready` : undefined;
  return (
    <Page title="Models" subtitle={subtitle} isWide>
      <Table
        label="Models"
        rows={here}
        of={models}
        keyOf={namespacedKey}
        columns={COLUMNS}
        none={<NoModels />}
        list={{ id: "models", hrefOf: hrefOfModel, defaultSort: "name", filter: FILTER }}
      />
    </Page>
  );
}

const FILTER: ListFilter<ModelRow> = {
  label: "Filter by name, source, family or format",
  textsOf: ({ namespace, name, source, family, format, quantization, state, attention }) => [
    ...[namespace, name, source, family, format, quantization, state.word, attention?.reason ?? ""],
  ],
};

function NoModels() {
  const hidden = useHiddenNamespace("models");
  if (hidden !== undefined) return <Failure error={hidden} />;
  return (
    <Empty
      title="No models yet"
      why="A Model names the weights that services use. Deploying a model creates one; its downloads, copies and benchmarks appear here."
      command="metalbridge deploy hf://ggml-org/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf --name qwen3"
    />
  );
}

const COLUMNS: readonly Column<ModelRow>[] = [
  { id: "name", header: "Name", value: ({ name }) => name, width: "minmax(104px, 1.2fr)" },
  namespaceColumn(),
  {
    id: "state",
    header: "State",
    value: ({ state }) => state.word,
    cell: ({ state, attention, message }) => <State state={state} title={attention?.message ?? message} />,
    width: "minmax(136px, 1.2fr)",
  },
  {
    id: "source",
    header: "Source",
    value: ({ source }) => source,
    cell: ({ source }) => (
      <span className="muted" title={source}>
        <bdi>{source}</bdi>
      </span>
    ),
    width: "minmax(104px, 3fr)",
    isWideOnly: true,
  },
  { id: "family", header: "Family", value: ({ family }) => family, isOptional: true },
  {
    id: "quantization",
    header: "Quantization",
    value: ({ format, quantization }) => `${format} ${quantization}`.trim(),
    width: "minmax(92px, 0.8fr)",
  },
  figure("size", "Size", ({ sizeBytes }) => sizeBytes, formatBytes, "64px"),
  {
    id: "downloads",
    header: "Downloads",
    value: ({ downloads }) => downloads.length,
    cell: ({ downloads }) => <Downloads downloads={downloads} />,
    width: "minmax(96px, 1fr)",
    isWideOnly: true,
  },
  {
    ...figure("copies", "Copies", ({ copies }) => copies.length, formatCount, "48px"),
    cell: ({ copies }) => <span title={copies.join(", ")}>{formatCount(copies.length)}</span>,
  },
  {
    ...figure("services", "Services", ({ services }) => services.length, formatCount, "56px"),
    cell: ({ services }) => <span title={services.join(", ")}>{formatCount(services.length)}</span>,
  },
  {
    ...figure("benchmarks", "Benchmarks", ({ benchmarks }) => benchmarks, formatCount, "88px"),
    isOptional: true,
  },
];

function Downloads({ downloads }: { readonly downloads: readonly DownloadRow[] }) {
  if (downloads.length === 0) return <span className="muted">–</span>;
  const sum = sumOfDownloads(downloads);
  return (
    <span className="line download-cell">
      <Progress label="Downloads" part={sum && shareOf(sum)} />
      <span className="number muted">{downloads.length}×</span>
    </span>
  );
}
