/** The page of one node of the cluster. */
import { useMutation } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useSearchParam } from "../../address/search.ts";
import { type ApiObject, mergePatch } from "../../api/kube.ts";
import { useRight } from "../../api/session.ts";
import { useList, useObjects } from "../../live/hooks.ts";
import { AttentionNotice } from "../../parts/attention.tsx";
import { Conditions, type ShownCondition } from "../../parts/conditions.tsx";
import { Events } from "../../parts/events.tsx";
import { Facts } from "../../parts/facts.tsx";
import { Empty, Failure, Skeleton } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { type PlainColumn, PlainTable } from "../../parts/plain-table.tsx";
import { State } from "../../parts/state.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { Ago } from "../../parts/time.tsx";
import { YamlView } from "../../parts/yaml/view.tsx";
import { hostText } from "../../texts/host.ts";
import { text } from "../../texts/text.ts";
import { CordonButton, CordonNotice } from "./cordon.tsx";
import { Subtitle } from "./host.tsx";
import { machineFacts } from "./machine-facts.tsx";
import { MachineMemory, ServiceLink } from "./machine-memory.tsx";
import "./host.css";

interface NodeObject extends ApiObject {
  readonly spec?: { readonly unschedulable?: boolean };
  readonly status?: { readonly conditions?: readonly ShownCondition[] };
}

interface PodObject extends ApiObject {
  readonly status?: {
    readonly phase?: string;
    readonly message?: string;
    readonly conditions?: readonly ShownCondition[];
  };
}

const LABEL_SERVICE = "metalbridge.dev/service";

export function NodePage() {
  const { name = "" } = useParams({ strict: false });
  const topic = useObjects(`node/${name}`);
  const row = useList("hosts").rows.find((one) => one.kind === "Node" && one.name === name);
  const node = topic.get("node") as NodeObject | undefined;
  const pods = topic.rows.filter((object) => object !== node) as readonly PodObject[];
  const cordon = useCordon(name);
  if (node === undefined)
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
      actions={<CordonNode node={node} pods={pods.length} cordon={cordon} />}
      isWide
    >
      {cordon.error !== null && <Failure error={cordon.error} />}
      {node.spec?.unschedulable === true && (
        <CordonNotice name={name} running={{ count: pods.length, what: "pod" }} />
      )}
      {row?.attention !== undefined && <AttentionNotice attention={row.attention} />}
      {row !== undefined && (
        <Facts
          facts={[
            ...machineFacts(row),
            [hostText.facts.addresses, row.address],
            [hostText.facts.joined, <Ago key="created" at={node.metadata.creationTimestamp} />],
          ]}
        />
      )}
      {row !== undefined && <MachineMemory row={row} />}
      <NodeTabs node={node} pods={pods} />
    </Page>
  );
}

interface Cordon {
  readonly set: (isCordoned: boolean) => void;
  readonly isBusy: boolean;
  readonly isDone: boolean;
  readonly error: Error | null;
}

function useCordon(name: string): Cordon {
  const { mutate, isPending, isSuccess, error } = useMutation({
    mutationFn: (unschedulable: boolean) =>
      mergePatch({ resource: "nodes", name }, { spec: { unschedulable } }),
  });
  return { set: mutate, isBusy: isPending, isDone: isSuccess, error };
}

function CordonNode({
  node,
  pods,
  cordon: { set, isBusy, isDone },
}: {
  readonly node: NodeObject;
  readonly pods: number;
  readonly cordon: Cordon;
}) {
  const right = useRight({ verb: "patch", group: "", resource: "nodes", name: node.metadata.name });
  return (
    <CordonButton
      name={node.metadata.name}
      isCordoned={node.spec?.unschedulable === true}
      running={{ count: pods, what: "pod" }}
      right={right}
      isBusy={isBusy}
      isDone={isDone}
      onChange={set}
    />
  );
}

function NodeTabs({ node, pods }: { readonly node: NodeObject; readonly pods: readonly PodObject[] }) {
  const [tab, setTab] = useSearchParam("tab", "pods");
  const { metadata, status } = node;
  const words = hostText.tabs;
  return (
    <Tabs
      value={tab}
      onChange={setTab}
      tabs={[
        {
          id: "pods",
          label: words.pods,
          count: pods.length,
          content: () => (
            <PlainTable
              label={words.pods}
              rows={pods}
              keyOf={({ metadata: { namespace, name } }) => `${namespace}/${name}`}
              columns={PODS}
              none={hostText.noReplicas}
            />
          ),
        },
        {
          id: "conditions",
          label: words.conditions,
          content: () => <Conditions conditions={status?.conditions ?? []} />,
        },
        {
          id: "events",
          label: words.events,
          content: () => <Events kind="Node" name={metadata.name} version={metadata.resourceVersion} />,
        },
        { id: "yaml", label: words.yaml, content: () => <YamlView object={node} /> },
      ]}
    />
  );
}

const PODS: readonly PlainColumn<PodObject>[] = [
  { id: "pod", header: hostText.pod, cell: ({ metadata }) => <bdi>{metadata.name}</bdi> },
  { id: "state", header: hostText.phase, cell: (pod) => <State state={stateOf(pod)} /> },
  {
    id: "service",
    header: hostText.service,
    cell: ({ metadata: { namespace, labels } }) => (
      <ServiceLink service={`${namespace}/${labels?.[LABEL_SERVICE] ?? ""}`} />
    ),
  },
  {
    id: "message",
    header: hostText.message,
    cell: ({ status }) => status?.message && <span className="muted">{status.message}</span>,
    isWide: true,
  },
];

function stateOf({ status }: PodObject) {
  const isReady = status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True");
  if (isReady === true) return { word: "Ready", level: "ok" } as const;
  const word = status?.phase ?? "Pending";
  return { word, level: word === "Failed" ? "bad" : "busy" } as const;
}
