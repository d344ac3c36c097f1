import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import type { Model, ModelStatus } from "../../../../src/api/model.ts";
import type { DownloadRow, ModelRow } from "../../../../src/console/rows.ts";
import { downloadWord } from "../../../../src/verdicts/download.ts";
import { keepNamespace, useSearchParam, useSetSearch } from "../../address/search.ts";
import { deleteObject } from "../../api/kube.ts";
import { useRight } from "../../api/session.ts";
import { useList, useObjects } from "../../live/hooks.ts";
import { Button } from "../../parts/buttons.tsx";
import { ConfirmAction } from "../../parts/dialogs.tsx";
import { formatBytes, formatCount, formatRate } from "../../parts/format.ts";
import { AttentionNotice } from "../../parts/notices.tsx";
import { Conditions, Events, MachineLink, ServiceLink, YamlView } from "../../parts/objects/objects.tsx";
import { AbsentPage, type Fact, Facts, Page, Section, Tabs } from "../../parts/page.tsx";
import { Ago, DownloadFigures, State } from "../../parts/states.tsx";
import { type Column, Table } from "../../parts/table/table.tsx";

/** The page of one model. */
export function ModelPage() {
  const { namespace = "", name = "" } = useParams({ strict: false });
  const topic = useObjects(`model/${namespace}/${name}`);
  const row = useList("models").rows.find((one) => one.namespace === namespace && one.name === name);
  const model = topic.get("model") as Model | undefined;
  if (model === undefined) return <AbsentPage name={name} what="Model" of={topic} />;
  return (
    <Page
      title={name}
      subtitle={<Subtitle namespace={namespace} row={row} />}
      actions={
        <>
          <DeployButton namespace={namespace} name={name} />
          <DeleteModel model={model} services={row?.services ?? []} />
        </>
      }
      isWide
    >
      {row?.attention !== undefined && <AttentionNotice attention={row.attention} />}
      <Facts facts={factsOf(model, row)} />
      <Downloads downloads={row?.downloads ?? []} />
      <UsedBy services={row?.services ?? []} />
      <ModelTabs model={model} />
    </Page>
  );
}

function Subtitle({ namespace, row }: { readonly namespace: string; readonly row: ModelRow | undefined }) {
  return (
    <span className="row">
      {row !== undefined && <State state={row.state} />}
      <span>{namespace}</span>
      {row?.attention === undefined && <span>{row?.message}</span>}
    </span>
  );
}

function DeployButton({ namespace, name }: { readonly namespace: string; readonly name: string }) {
  const setSearch = useSetSearch();
  const right = useRight({ verb: "create", resource: "inferenceservices", namespace });
  return (
    <Button right={right} onClick={() => setSearch({ deploy: name, ns: namespace })}>
      Deploy
    </Button>
  );
}

function factsOf({ metadata, spec, status }: Model, row: ModelRow | undefined): readonly Fact[] {
  const { gguf, files = [], prefetch } = status ?? {};
  return [
    ["Source", spec.source],
    ["Ignored files", spec.ignorePatterns?.join(", ")],
    ["Family", spec.familyName],
    ["Owner", spec.ownedBy],
    ["Model created", spec.createdAt === undefined ? undefined : <Ago key="made" at={spec.createdAt} />],
    ["Format", row?.format],
    ["Quantization", row?.quantization],
    ["Size", bytesOrNone(status?.sizeBytes)],
    ["Weights in memory", bytesOrNone(status?.weightsBytes)],
    ["Architecture", gguf?.architecture],
    ["Trained context", gguf?.contextLength === undefined ? undefined : formatCount(gguf.contextLength)],
    ["Accelerator", spec.hardware?.accelerator],
    ["Revision", status?.shortRevision],
    ["Refresh policy", spec.refreshPolicy],
    ["Source checked", status?.checkedAt === undefined ? undefined : <Ago key="c" at={status.checkedAt} />],
    ["Source changed", status?.changedAt === undefined ? undefined : <Ago key="d" at={status.changedAt} />],
    ["Prefetched", prefetch?.summary],
    ["Files", files.length === 0 ? undefined : <Files key="files" files={files} />],
    ["Created", <Ago key="created" at={metadata.creationTimestamp} />],
  ];
}

function bytesOrNone(bytes: number | undefined): string | undefined {
  return bytes === undefined ? undefined : formatBytes(bytes);
}

function Files({ files }: { readonly files: readonly string[] }) {
  return <span title={files.join("\n")}>{files.length === 1 ? "1 file" : `${files.length} files`}</span>;
}

function UsedBy({ services }: { readonly services: readonly string[] }) {
  return (
    <Section title="Services that use it">
      {services.length === 0 ? (
        <p className="muted">No service uses this model.</p>
      ) : (
        <ul className="wrap">
          {services.map((service) => (
            <li key={service}>
              <ServiceLink service={service} />
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}

function ModelTabs({ model }: { readonly model: Model }) {
  const [tab, setTab] = useSearchParam("tab", "copies");
  const { metadata, status } = model;
  const copies = copiesOf(status);
  const benchmarks = status?.benchmarks ?? [];
  const { namespace = "default", name } = metadata;
  return (
    <Tabs
      value={tab}
      onChange={setTab}
      tabs={[
        {
          id: "copies",
          label: "Copies",
          count: copies.length,
          content: () => (
            <Table
              label="Copies"
              rows={copies}
              keyOf={({ place }) => place}
              columns={COPIES}
              none="No host has a verified copy yet. Hosts download the weights when a replica is placed there."
            />
          ),
        },
        {
          id: "benchmarks",
          label: "Benchmarks",
          count: benchmarks.length,
          content: () => (
            <Table
              label="Benchmarks"
              rows={benchmarks}
              keyOf={({ deviceClass, runtime, build }) => `${deviceClass} ${runtime} ${build}`}
              columns={BENCHMARKS}
              none="Not measured yet. Each class of machine measures the model once, while one of them is idle."
            />
          ),
        },
        {
          id: "conditions",
          label: "Conditions",
          content: () => <Conditions conditions={status?.conditions ?? []} />,
        },
        {
          id: "events",
          label: "Events",
          content: () => (
            <Events kind="Model" namespace={namespace} name={name} version={metadata.resourceVersion} />
          ),
        },
        { id: "yaml", label: "YAML", content: () => <YamlView object={model} /> },
      ]}
    />
  );
}

interface CopyRow {
  readonly place: string;
  /** Empty for the volume for pods. */
  readonly host: string;
  readonly sizeBytes?: number | undefined;
  readonly sha256?: string | undefined;
}

function copiesOf(status: ModelStatus | undefined): readonly CopyRow[] {
  const hosts = (status?.hosts ?? []).map(({ name, sizeBytes, sha256 }) => ({
    place: name,
    host: name,
    sizeBytes,
    sha256,
  }));
  const { cache } = status ?? {};
  if (cache?.phase !== "Ready" || cache.claimName === "") return hosts;
  const place = `Volume for pods: ${cache.claimName}`;
  return [...hosts, { place, host: "", sizeBytes: cache.bytes }];
}

const COPIES: readonly Column<CopyRow>[] = [
  {
    id: "host",
    header: "Host",
    cell: ({ host, place }) => (host === "" ? place : <MachineLink name={host} />),
  },
  {
    id: "size",
    header: "Size",
    cell: ({ sizeBytes }) => formatBytes(sizeBytes),
    isNumber: true,
  },
  {
    id: "sha256",
    header: "SHA-256",
    cell: ({ sha256 = "" }) => <code title={sha256}>{sha256.slice(0, 12)}</code>,
    isNumber: true,
  },
];

type Benchmark = NonNullable<ModelStatus["benchmarks"]>[number];

const BENCHMARKS: readonly Column<Benchmark>[] = [
  {
    id: "class",
    header: "Device class",
    cell: ({ deviceClass }) => deviceClass,
  },
  { id: "runtime", header: "Runtime", cell: ({ runtime }) => runtime },
  { id: "build", header: "Build", cell: ({ build }) => <code>{build}</code> },
  {
    id: "tokens",
    header: "Tokens/s",
    cell: ({ tokensPerSecond }) => formatRate(tokensPerSecond),
    isNumber: true,
  },
  {
    id: "measured",
    header: "Measured",
    cell: ({ measuredAt }) => <Ago at={measuredAt} />,
    isNumber: true,
  },
];

const NAMES = 8;

/** Deletes a model, after a question that names its services and copies. */
function DeleteModel({
  model: { metadata, status },
  services,
}: {
  readonly model: Model;
  readonly services: readonly string[];
}) {
  const [isAsking, setIsAsking] = useState(false);
  const navigate = useNavigate();
  const place = { resource: "models", namespace: metadata.namespace ?? "default", name: metadata.name };
  const right = useRight({ verb: "delete", ...place });
  const copies = status?.hosts?.length ?? 0;
  return (
    <>
      <Button look="danger" right={right} onClick={() => setIsAsking(true)}>
        Delete
      </Button>
      {isAsking && (
        <ConfirmAction
          title={`Delete the model ${metadata.name}?`}
          act="Delete"
          run={() => deleteObject(place)}
          onDone={() => navigate({ to: "/models" as "/", search: keepNamespace })}
          onClose={() => setIsAsking(false)}
        >
          {services.length === 0 ? (
            <p className="prose">No service uses it.</p>
          ) : (
            <div>
              <p className="prose">
                {services.length === 1
                  ? "1 service uses it. Its replicas keep running, but no new replica can be started:"
                  : `${services.length} services use it. Their replicas keep running, but no new replica can be started:`}
              </p>
              <ul>
                {services.slice(0, NAMES).map((name) => (
                  <li key={name}>
                    <bdi>{name}</bdi>
                  </li>
                ))}
              </ul>
            </div>
          )}
          <p className="prose">
            {copies === 0
              ? "No host has a copy of its weights."
              : `${copies === 1 ? "The copy" : `The ${copies} copies`} on hosts stay until their space is needed.`}
          </p>
          {status?.cache !== undefined && (
            <p className="prose">The weights on the volume for pods are deleted.</p>
          )}
        </ConfirmAction>
      )}
    </>
  );
}

function Downloads({ downloads }: { readonly downloads: readonly DownloadRow[] }) {
  if (downloads.length === 0) return null;
  return (
    <Section title="Downloads">
      <ul className="cards">
        {downloads.map((download) => (
          <li key={download.place} className="card stack gap-8 card-low">
            <Download download={download} />
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Download({ download }: { readonly download: DownloadRow }) {
  const { place, phase, message = "" } = download;
  const isRunning = phase === "Downloading";
  const word = isRunning ? downloadWord(phase, [download]) : phase;
  return (
    <>
      <div className="spread">
        <h3 className="truncate">{place}</h3>
        <State state={{ word, level: phase === "Failed" ? "bad" : isRunning ? "busy" : "idle" }} />
      </div>
      <DownloadFigures label={place} download={download} />
      {message !== "" && <p className="small prose">{message}</p>}
    </>
  );
}
