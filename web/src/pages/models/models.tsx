/** All models: where their weights are, what is downloaded, who uses them. */
import { useMemo } from "react";
import type { DownloadRow, ModelRow } from "../../../../src/console/rows.ts";
import { useNamespace, useSearchParam } from "../../address/search.ts";
import { useHiddenNamespace } from "../../address/sight.ts";
import { useList } from "../../live/hooks.ts";
import { formatBytes, formatCount } from "../../parts/format.ts";
import { Empty, Failure, Skeleton } from "../../parts/notices.tsx";
import { Page } from "../../parts/page.tsx";
import { type Column, DataTable, namespacedKey } from "../../parts/table/table.tsx";
import "./models.css";
import { shareOf, sumOfDownloads } from "../../../../src/verdicts/download.ts";
import { countReady, Progress, State } from "../../parts/states.tsx";
import { countOf, Filter, hasWords } from "../../parts/table/filters.tsx";

export function ModelsPage() {
  const models = useList("models");
  const namespace = useNamespace();
  const [words, setWords] = useSearchParam("q");
  const here = useMemo(
    () => models.rows.filter((row) => namespace === "" || row.namespace === namespace),
    [models.rows, namespace],
  );
  const shown = useMemo(() => here.filter((row) => isFound(row, words)), [here, words]);
  const ready = countReady(here);
  return (
    <Page
      title="Models"
      subtitle={models.isSynced && here.length > 0 ? `${ready} of ${here.length} ready` : undefined}
      isWide
    >
      {models.refusal !== undefined && <Failure error={models.refusal} />}
      {!models.isSynced && models.refusal === undefined && <Skeleton />}
      {models.isSynced && here.length === 0 && <NoModels />}
      {here.length > 0 && (
        <DataTable
          id="models"
          label="Models"
          rows={shown}
          keyOf={namespacedKey}
          columns={COLUMNS}
          hrefOf={hrefOfModel}
          defaultSort="name"
          toolbar={
            <>
              <Filter label="Filter by name, source or format" words={words} onChange={setWords} />
              <span className="muted small number">{countOf(shown.length, here.length)}</span>
            </>
          }
        />
      )}
    </Page>
  );
}

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

function hrefOfModel({ namespace, name }: ModelRow): string {
  return `/models/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

function isFound(row: ModelRow, words: string): boolean {
  const { namespace, name, source, format, quantization, state, attention } = row;
  const texts = [namespace, name, source, format, quantization, state.word, attention?.reason ?? ""];
  return hasWords(texts, words);
}

const COLUMNS: readonly Column<ModelRow>[] = [
  { id: "name", header: "Name", value: ({ name }) => name, width: "minmax(104px, 1.2fr)" },
  {
    id: "namespace",
    header: "Namespace",
    value: ({ namespace }) => namespace,
    cell: ({ namespace }) => <span className="muted">{namespace}</span>,
    width: "minmax(72px, 0.7fr)",
  },
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
  {
    id: "quantization",
    header: "Quantization",
    value: ({ format, quantization }) => `${format} ${quantization}`.trim(),
    width: "minmax(92px, 0.8fr)",
  },
  {
    id: "size",
    header: "Size",
    value: ({ sizeBytes }) => sizeBytes,
    cell: ({ sizeBytes }) => formatBytes(sizeBytes),
    width: "64px",
    isNumber: true,
  },
  {
    id: "downloads",
    header: "Downloads",
    value: ({ downloads }) => downloads.length,
    cell: ({ downloads }) => <Downloads downloads={downloads} />,
    width: "minmax(96px, 1fr)",
    isWideOnly: true,
  },
  {
    id: "copies",
    header: "Copies",
    value: ({ copies }) => copies.length,
    cell: ({ copies }) => <span title={copies.join(", ")}>{formatCount(copies.length)}</span>,
    width: "48px",
    isNumber: true,
  },
  {
    id: "services",
    header: "Services",
    value: ({ services }) => services.length,
    cell: ({ services }) => <span title={services.join(", ")}>{formatCount(services.length)}</span>,
    width: "56px",
    isNumber: true,
  },
  {
    id: "benchmarks",
    header: "Benchmarks",
    value: ({ benchmarks }) => benchmarks,
    width: "88px",
    isNumber: true,
    isOptional: true,
  },
];

function Downloads({ downloads }: { readonly downloads: readonly DownloadRow[] }) {
  if (downloads.length === 0) return <span className="muted">–</span>;
  const sum = sumOfDownloads(downloads);
  return (
    <span className="download-cell">
      <Progress label="Downloads" part={sum && shareOf(sum)} />
      <span className="number muted">{downloads.length}×</span>
    </span>
  );
}
