/** One service: what it does, why, and what can be done about it. */

import { lazyRouteComponent, useParams } from "@tanstack/react-router";
import { useRef } from "react";
import { useSearchParam } from "../../address/search.ts";
import { useList, useObjects } from "../../live/hooks.ts";
import { Empty, Failure, Skeleton } from "../../parts/notices.tsx";
import { EventList, type EventObject } from "../../parts/objects/objects.tsx";
import { Page, type Tab, Tabs } from "../../parts/page.tsx";
import { Actions } from "./actions.tsx";
import { Head } from "./head.tsx";
import { objectsOf, type ServiceObjects } from "./objects.ts";
import { PlacementTab } from "./placement.tsx";
import { ReplicasTab } from "./replicas.tsx";
import { RolloutTab } from "./rollout.tsx";
import "./service.css";
import { To } from "../../address/to.tsx";
import type { Column } from "../../parts/table/table.tsx";
import { MetricsTab, useSamples } from "./metrics.tsx";

const LogsTab = lazyRouteComponent(() => import("./logs/logs-tab.tsx"), "LogsTab");
const YamlTab = lazyRouteComponent(() => import("./yaml/yaml-tab.tsx"), "YamlTab");

export function ServicePage() {
  const { namespace, name } = useParams({ strict: false }) as { namespace: string; name: string };
  // Another service is another page: nothing of this one may be seen in it.
  return <OneService key={`${namespace}/${name}`} namespace={namespace} name={name} />;
}

function OneService({ namespace, name }: { readonly namespace: string; readonly name: string }) {
  const { rows, get, isSynced, refusal } = useObjects(`service/${namespace}/${name}`);
  const row = useList("services").get(`${namespace}/${name}`);
  const objects = objectsOf(get, rows, row);
  const wasSeen = useRef(false);
  if (objects !== undefined) wasSeen.current = true;
  if (objects !== undefined)
    return (
      <Page
        title={name}
        subtitle={<bdi>{namespace}</bdi>}
        actions={<Actions objects={objects} />}
        key={objects.service.metadata.uid}
      >
        <Head objects={objects} />
        <ServiceTabs objects={objects} />
      </Page>
    );
  if (refusal !== undefined)
    return (
      <Page title={name}>
        <Failure error={refusal} />
      </Page>
    );
  return (
    <Page title={name} subtitle={<bdi>{namespace}</bdi>}>
      {isSynced ? <Gone name={name} wasSeen={wasSeen.current} /> : <Skeleton />}
    </Page>
  );
}

function Gone({ name, wasSeen }: { readonly name: string; readonly wasSeen: boolean }) {
  return (
    <div role="alert">
      <Empty
        title={wasSeen ? `${name} was deleted` : `There is no service ${name}`}
        why={
          wasSeen
            ? "The service was deleted while this page was open. Its Model stays."
            : "It was deleted, or the address is wrong."
        }
      >
        <To path="/services">All services</To>
      </Empty>
    </div>
  );
}

function ServiceTabs({ objects }: { readonly objects: ServiceObjects }) {
  const [tab, setTab] = useSearchParam("tab", "replicas");
  const samples = useSamples(objects);
  const tabs: readonly Tab[] = [
    {
      id: "replicas",
      label: "Replicas",
      count: objects.replicas.length + objects.pods.length,
      content: () => <ReplicasTab objects={objects} />,
    },
    { id: "placement", label: "Placement", content: () => <PlacementTab objects={objects} /> },
    { id: "rollout", label: "Rollout", content: () => <RolloutTab objects={objects} /> },
    { id: "logs", label: "Logs", content: () => <LogsTab objects={objects} /> },
    { id: "metrics", label: "Metrics", content: () => <MetricsTab samples={samples} /> },
    { id: "events", label: "Events", content: () => <EventsTab objects={objects} /> },
    {
      id: "yaml",
      label: "YAML",
      content: () => <YamlTab service={objects.service} />,
    },
  ];
  const known = tabs.some(({ id }) => id === tab) ? tab : "replicas";
  return <Tabs tabs={tabs} value={known} onChange={setTab} />;
}

/** One request for each object. */
const MAX_PARTS = 8;

const OBJECT: Column<EventObject> = {
  id: "object",
  header: "Object",
  cell: ({ involvedObject: { kind, name } = {} }) => (kind === "InferenceService" ? kind : `${kind}/${name}`),
};

/** Events of a service, its replicas and its pods. */
function EventsTab({ objects }: { readonly objects: ServiceObjects }) {
  const { service, replicas, pods } = objects;
  const all = [service, ...[...replicas, ...pods].slice(0, MAX_PARTS)];
  return (
    <EventList
      namespace={service.metadata.namespace ?? "default"}
      selectors={all.map(({ metadata }) => `involvedObject.uid=${metadata.uid}`)}
      version={changeOf(objects)}
      columns={[OBJECT]}
    />
  );
}

/** Changes with what an Event could report; measured figures are left out. */
function changeOf({ service, replicas, pods }: ServiceObjects): string {
  const { metadata, status } = service;
  const conditions = status?.conditions?.map(({ type, status: is, reason }) => `${type}${is}${reason}`) ?? [];
  const parts = [
    ...replicas.map((one) => `${one.metadata.name}${one.status?.phase}${one.status?.reason}`),
    ...pods.map((one) => `${one.metadata.name}${one.status?.phase}`),
  ];
  return [metadata.generation, status?.phase, status?.message, ...conditions, ...parts].join(" ");
}
