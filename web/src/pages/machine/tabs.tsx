/** The tabs of a machine: what runs on it, its models, its conditions and what has happened. */

import type { HostInstalled, HostModel, HostStatus } from "../../../../src/api/host.ts";
import { useSearchParam } from "../../address/search.ts";
import { formatBytes, formatRate } from "../../parts/format.ts";
import { Conditions, Events, ServiceLink, YamlView } from "../../parts/objects/objects.tsx";
import { Section, type Tab, Tabs } from "../../parts/page.tsx";
import { Ago, State, Tag } from "../../parts/states.tsx";
import { type Column, Table } from "../../parts/table/table.tsx";
import { FittingModels } from "./fitting-models.tsx";
import { type HistoryEntry, hostHistory } from "./history.ts";
import { type Machine, type Running, runningOn } from "./running.ts";

export function MachineTabs({ machine }: { readonly machine: Machine }) {
  const { kind, object } = machine;
  const { metadata, status } = object;
  const { models, history } = kind === "Host" ? hostTabs(machine) : NO_TABS;
  const tabs: readonly Tab[] = [
    runningTab(machine),
    ...models,
    {
      id: "conditions",
      label: "Conditions",
      content: () => <Conditions conditions={status?.conditions ?? []} />,
    },
    {
      id: "events",
      label: "Events",
      content: () => <Events kind={kind} name={metadata.name} version={metadata.resourceVersion} />,
    },
    ...history,
    { id: "yaml", label: "YAML", content: () => <YamlView object={object} /> },
  ];
  const [tab, setTab] = useSearchParam("tab", tabs[0]?.id);
  return <Tabs value={tab} onChange={setTab} tabs={tabs} />;
}

function runningTab(machine: Machine): Tab {
  const label = machine.kind === "Host" ? "Replicas" : "Pods";
  const content = () => (
    <Table
      label={label}
      rows={runningOn(machine)}
      keyOf={({ key }) => key}
      columns={machine.kind === "Host" ? REPLICAS : PODS}
      none="No replica runs on this machine."
    />
  );
  return { id: label.toLowerCase(), label, count: machine.running.length, content };
}

const NO_TABS: Readonly<Record<"models" | "history", readonly Tab[]>> = { models: [], history: [] };

/** Those that a node does not have. */
function hostTabs({ object, running }: Extract<Machine, { kind: "Host" }>): typeof NO_TABS {
  const { metadata, status } = object;
  const models: readonly Tab[] = [
    {
      id: "models",
      label: "Models on disk",
      count: status?.models?.length ?? 0,
      content: () => <ModelsOnDisk status={status} />,
    },
    { id: "fits", label: "Models that fit", content: () => <FittingModels name={metadata.name} /> },
  ];
  const history = () => (
    <Table
      label="History"
      rows={hostHistory(object, running)}
      keyOf={({ key }) => key}
      columns={HISTORY}
      none="Nothing has changed since the host joined."
    />
  );
  return { models, history: [{ id: "history", label: "History", content: history }] };
}

const RUNNING: readonly Column<Running>[] = [
  { id: "state", header: "Phase", cell: ({ state }) => <State state={state} /> },
  { id: "service", header: "Service", cell: ({ service }) => <ServiceLink service={service} /> },
  {
    id: "message",
    header: "Message",
    cell: ({ state }) => <span className="muted">{state.message}</span>,
    isWide: true,
  },
];

const PODS: readonly Column<Running>[] = [
  { id: "pod", header: "Pod", cell: ({ name }) => <bdi>{name}</bdi> },
  ...RUNNING,
];

const REPLICAS: readonly Column<Running>[] = [
  { id: "replica", header: "Replica", cell: ({ name }) => <bdi>{name}</bdi> },
  ...RUNNING,
  { id: "claim", header: "Claimed", cell: ({ claimBytes }) => formatBytes(claimBytes), isNumber: true },
  { id: "used", header: "In use", cell: ({ usedBytes }) => formatBytes(usedBytes), isNumber: true },
  { id: "restarts", header: "Restarts", cell: ({ restarts }) => restarts, isNumber: true },
];

const HISTORY: readonly Column<HistoryEntry>[] = [
  { id: "when", header: "When", cell: ({ at }) => <Ago at={at} /> },
  { id: "what", header: "What", cell: ({ subject }) => <bdi>{subject}</bdi> },
  { id: "change", header: "Change", cell: ({ state }) => <State state={state} /> },
  { id: "reason", header: "Reason", cell: ({ reason }) => <code>{reason}</code> },
  { id: "message", header: "Message", cell: ({ message }) => message, isWide: true },
];

/** Models in a host's store, and those of other programs on it. */
function ModelsOnDisk({ status }: { readonly status: HostStatus | undefined }) {
  const { models = [], installed = [], installedLeftOut = 0 } = status ?? {};
  return (
    <div className="stack gap-24">
      <Table
        label={"Models on disk"}
        rows={models}
        keyOf={({ source }) => source}
        columns={MODELS}
        none="The model store of this host is empty."
      />
      <Section title="Models of other programs">
        <p className="muted prose">Metalbridge can serve them, but does not manage them.</p>
        <Table
          label="Models of other programs"
          rows={installed}
          keyOf={({ runtime, source }) => `${runtime} ${source}`}
          columns={INSTALLED}
          none="No models of other programs were found."
        />
        {installedLeftOut > 0 && <p className="muted">{`${installedLeftOut} more are not listed.`}</p>}
      </Section>
    </div>
  );
}

const MODELS: readonly Column<HostModel>[] = [
  { id: "source", header: "Model", cell: ({ source }) => <bdi>{source}</bdi>, isWide: true },
  { id: "state", header: "State", cell: (model) => <ModelMarks model={model} /> },
  { id: "size", header: "Size", cell: ({ sizeBytes }) => formatBytes(sizeBytes), isNumber: true },
  {
    id: "speed",
    header: "Tokens/s",
    cell: ({ tokensPerSecond }) => formatRate(tokensPerSecond),
    isNumber: true,
  },
  { id: "used", header: "Last used", cell: ({ lastUsedAt }) => <Ago at={lastUsedAt} />, isNumber: true },
  {
    id: "verified",
    header: "Verified",
    cell: ({ verifiedAt }) => <Ago at={verifiedAt} />,
    isNumber: true,
  },
];

function ModelMarks({ model: { damaged, inUse, pinned } }: { readonly model: HostModel }) {
  const isPlain = damaged !== true && inUse !== true && pinned !== true;
  return (
    <span className="row">
      {damaged === true && <Tag level="bad">Damaged</Tag>}
      {inUse === true && <Tag level="ok">In use</Tag>}
      {pinned === true && <Tag>Pinned</Tag>}
      {isPlain && <span className="muted">Idle</span>}
    </span>
  );
}

const INSTALLED: readonly Column<HostInstalled>[] = [
  { id: "source", header: "Model", cell: ({ source }) => <bdi>{source}</bdi>, isWide: true },
  { id: "program", header: "Program", cell: ({ runtime }) => runtime },
  { id: "size", header: "Size", cell: ({ sizeBytes }) => formatBytes(sizeBytes), isNumber: true },
];
