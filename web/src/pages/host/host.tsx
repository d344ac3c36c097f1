/** The page of one host. */
import { useParams } from "@tanstack/react-router";
import type { Host } from "../../../../src/api/host.ts";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import type { HostRow } from "../../../../src/console/rows.ts";
import { useSearchParam } from "../../address/search.ts";
import { useList, useObjects } from "../../live/hooks.ts";
import { AttentionNotice } from "../../parts/attention.tsx";
import { Conditions } from "../../parts/conditions.tsx";
import { Events } from "../../parts/events.tsx";
import { type Fact, Facts } from "../../parts/facts.tsx";
import { formatBytes } from "../../parts/format.ts";
import { Empty, Failure, Skeleton } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { type PlainColumn, PlainTable } from "../../parts/plain-table.tsx";
import { State } from "../../parts/state.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { Ago } from "../../parts/time.tsx";
import { YamlView } from "../../parts/yaml/view.tsx";
import { hostText } from "../../texts/host.ts";
import { text } from "../../texts/text.ts";
import { CordonNotice } from "./cordon.tsx";
import { FittingModels } from "./fitting-models.tsx";
import { HistoryView } from "./history-view.tsx";
import { ActionFailure, DrainNotice, HostButtons, useHostActions } from "./host-actions.tsx";
import { machineFacts } from "./machine-facts.tsx";
import { MachineMemory, ServiceLink } from "./machine-memory.tsx";
import { ModelsOnDisk } from "./models-on-disk.tsx";
import "./host.css";

const LABEL_DEVICE_CLASS = "metalbridge.dev/device-class";

export function HostPage() {
  const { name = "" } = useParams({ strict: false });
  const topic = useObjects(`host/${name}`);
  const row = useList("hosts").rows.find((one) => one.kind === "Host" && one.name === name);
  const host = topic.get("host") as Host | undefined;
  const replicas = topic.rows.filter((object) => object !== host) as readonly InferenceReplica[];
  const actions = useHostActions(name);
  if (host === undefined)
    return (
      <Page title={name}>
        {topic.refusal !== undefined && <Failure error={topic.refusal} />}
        {topic.refusal === undefined && !topic.isSynced && <Skeleton />}
        {topic.isSynced && <Empty title={text.error.gone(hostText.gone(name))} why={text.error.goneWhy} />}
      </Page>
    );
  return (
    <Page
      title={name}
      subtitle={<Subtitle row={row} />}
      actions={<HostButtons host={host} replicas={replicas} actions={actions} />}
      isWide
    >
      <ActionFailure actions={actions} />
      <DrainNotice host={host} replicas={replicas} />
      {host.spec?.unschedulable === true && !host.spec.drain && (
        <CordonNotice name={name} running={{ count: replicas.length, what: "replica" }} />
      )}
      {row?.attention !== undefined && !(host.spec?.drain ?? false) && (
        <AttentionNotice attention={row.attention} />
      )}
      {row !== undefined && <Facts facts={[...machineFacts(row), ...hostFacts(host)]} />}
      {row !== undefined && <MachineMemory row={row} />}
      <HostTabs host={host} replicas={replicas} />
    </Page>
  );
}

export function Subtitle({ row }: { readonly row: HostRow | undefined }) {
  if (row === undefined) return null;
  const kind = row.kind === "Host" ? hostText.host : hostText.node;
  return (
    <span className="row">
      <State state={row.state} />
      <span>{[kind, row.chip, formatBytes(row.totalBytes)].filter(Boolean).join(" · ")}</span>
    </span>
  );
}

function hostFacts({ metadata, status }: Host): readonly Fact[] {
  const words = hostText.facts;
  const { bootTime } = status?.info ?? {};
  return [
    [words.addresses, status?.addresses?.join(", ")],
    [words.deviceClass, metadata.labels?.[LABEL_DEVICE_CLASS]],
    [words.booted, bootTime === undefined ? undefined : <Ago key="boot" at={bootTime} />],
    [words.joined, <Ago key="created" at={metadata.creationTimestamp} />],
  ];
}

function HostTabs({
  host,
  replicas,
}: {
  readonly host: Host;
  readonly replicas: readonly InferenceReplica[];
}) {
  const [tab, setTab] = useSearchParam("tab", "replicas");
  const { metadata, status } = host;
  const words = hostText.tabs;
  return (
    <Tabs
      value={tab}
      onChange={setTab}
      tabs={[
        {
          id: "replicas",
          label: words.replicas,
          count: replicas.length,
          content: () => <Replicas replicas={replicas} />,
        },
        {
          id: "models",
          label: words.models,
          count: status?.models?.length ?? 0,
          content: () => <ModelsOnDisk status={status} />,
        },
        { id: "fits", label: words.fits, content: () => <FittingModels name={metadata.name} /> },
        {
          id: "conditions",
          label: words.conditions,
          content: () => <Conditions conditions={status?.conditions ?? []} />,
        },
        {
          id: "events",
          label: words.events,
          content: () => <Events kind="Host" name={metadata.name} version={metadata.resourceVersion} />,
        },
        {
          id: "history",
          label: words.history,
          content: () => <HistoryView host={host} replicas={replicas} />,
        },
        { id: "yaml", label: words.yaml, content: () => <YamlView object={host} /> },
      ]}
    />
  );
}

function Replicas({ replicas }: { readonly replicas: readonly InferenceReplica[] }) {
  const sorted = [...replicas].sort((a, b) => keyOfReplica(a).localeCompare(keyOfReplica(b)));
  return (
    <PlainTable
      label={hostText.tabs.replicas}
      rows={sorted}
      keyOf={keyOfReplica}
      columns={REPLICAS}
      none={hostText.noReplicas}
    />
  );
}

function keyOfReplica({ metadata }: InferenceReplica): string {
  return `${metadata.namespace}/${metadata.name}`;
}

const REPLICAS: readonly PlainColumn<InferenceReplica>[] = [
  { id: "replica", header: hostText.replica, cell: ({ metadata }) => <bdi>{metadata.name}</bdi> },
  { id: "state", header: hostText.phase, cell: (replica) => <State state={stateOf(replica)} /> },
  {
    id: "service",
    header: hostText.service,
    cell: ({ metadata, spec }) => (
      <ServiceLink service={`${metadata.namespace}/${spec.template.serviceName}`} />
    ),
  },
  {
    id: "message",
    header: hostText.message,
    cell: ({ status }) => status?.message && <span className="muted">{status.message}</span>,
    isWide: true,
  },
  {
    id: "claim",
    header: hostText.claimed,
    cell: ({ spec }) => formatBytes(spec.memory.claimBytes),
    isNumber: true,
  },
  {
    id: "used",
    header: hostText.inUse,
    cell: ({ status }) => formatBytes(status?.memory?.footprintBytes),
    isNumber: true,
  },
  { id: "restarts", header: hostText.restarts, cell: ({ status }) => status?.restarts ?? 0, isNumber: true },
];

function stateOf({ status }: InferenceReplica) {
  const phase = status?.phase ?? "Pending";
  if (phase === "Ready") return { word: phase, level: "ok" } as const;
  if (phase === "Failed") return { word: phase, level: "bad" } as const;
  return { word: phase, level: phase === "Waiting" ? "warn" : "busy" } as const;
}
