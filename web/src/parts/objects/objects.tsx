/** What the page of every object has: links, conditions, Events, YAML. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { lazyRouteComponent } from "@tanstack/react-router";
import type { StateWord } from "../../../../src/console/rows.ts";
import { hrefOfMachine, To } from "../../address/to.tsx";
import { type ApiObject, listObjects } from "../../api/kube.ts";
import { HIDDEN_NAMESPACE } from "../format.ts";
import { Ago, State } from "../states.tsx";
import { type Column, sourceOf, Table } from "../table/table.tsx";

/** `service` is `namespace/name`; empty for one that the reader may not see. */
export function ServiceLink({ service }: { readonly service: string }) {
  if (service === "") return <span className="muted">{HIDDEN_NAMESPACE}</span>;
  return (
    <To path={`/services/${service}`}>
      <bdi>{service}</bdi>
    </To>
  );
}

export function MachineLink({
  name,
  kind = "Host",
}: {
  readonly name: string;
  readonly kind?: "Host" | "Node";
}) {
  return (
    <To path={hrefOfMachine({ kind, name })} className="link truncate" title={name}>
      <bdi>{name}</bdi>
    </To>
  );
}

export interface ShownCondition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
  readonly lastTransitionTime?: string | undefined;
}

/** The conditions of an object, in their own words: those that report a fault first. */
export function Conditions({ conditions = [] }: { readonly conditions?: readonly ShownCondition[] }) {
  const sorted = [...conditions].sort((a, b) => rankOf(a) - rankOf(b) || a.type.localeCompare(b.type));
  return (
    <Table
      label="Status"
      rows={sorted}
      keyOf={({ type }) => type}
      columns={CONDITIONS}
      none="No conditions have been reported yet."
    />
  );
}

const CONDITIONS: readonly Column<ShownCondition>[] = [
  { id: "type", header: "Type", cell: ({ type }) => type },
  {
    id: "status",
    header: "Status",
    cell: (condition) => <State state={{ word: condition.status, level: levelOf(condition) }} />,
  },
  { id: "reason", header: "Reason", cell: ({ reason = "" }) => <code>{reason}</code> },
  { id: "message", header: "Message", cell: ({ message }) => message, isWide: true },
  {
    id: "since",
    header: "Since",
    cell: ({ lastTransitionTime }) => <Ago at={lastTransitionTime} />,
    isNumber: true,
  },
];

/** Types whose True is a fault. */
const FAULT =
  /(Pressure|AtRisk|Unavailable)$|^(Degraded|Lost|Flapping|InboundBlocked|CPUFallback|GpuFault|Stalled)$/;
/** Neither status is a fault. */
const PROGRESS = /^(Progressing|Drained|ScalingActive|ScalingLimited|RestartAtRisk)$/;

function levelOf({ type, status }: ShownCondition): StateWord["level"] {
  if (status === "Unknown" || PROGRESS.test(type)) return "idle";
  const isFault = FAULT.test(type) ? status === "True" : status === "False";
  return isFault ? "bad" : "ok";
}

function rankOf(condition: ShownCondition): number {
  return ["bad", "idle", "ok"].indexOf(levelOf(condition));
}

export interface EventObject extends ApiObject {
  readonly involvedObject?: { readonly kind?: string; readonly name?: string };
  readonly type?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly count?: number;
  readonly series?: { readonly count?: number; readonly lastObservedTime?: string };
  readonly eventTime?: string | null;
  readonly lastTimestamp?: string | null;
  readonly firstTimestamp?: string | null;
}

export interface EventsProps {
  readonly kind: string;
  readonly name: string;
  /** Events of objects without a namespace are in `default`. */
  readonly namespace?: string;
  /** resourceVersion of the object. */
  readonly version: string | undefined;
}

/** Events of objects, newest first; asked for again when an object changes. */
export function Events({ kind, name, namespace = "default", version }: EventsProps) {
  const selectors = [`involvedObject.kind=${kind},involvedObject.name=${name}`];
  return <EventList namespace={namespace} selectors={selectors} version={version} />;
}

export interface EventListProps {
  readonly namespace: string;
  /** Field selectors, one request for each. */
  readonly selectors: readonly string[];
  /** Another value asks again. */
  readonly version: string | undefined;
  /** Additional columns, before the message. */
  readonly columns?: readonly Column<EventObject>[];
}

export function EventList({ namespace, selectors, version, columns = [] }: EventListProps) {
  const query = useQuery({
    queryKey: ["events", namespace, selectors, version],
    queryFn: async ({ signal }) => {
      const lists = selectors.map((fieldSelector) =>
        listObjects<EventObject>({ resource: "events", namespace }, { fieldSelector }, signal),
      );
      return (await Promise.all(lists)).flat();
    },
    placeholderData: keepPreviousData,
  });
  const sorted = [...(query.data ?? [])].sort((a, b) => timeOf(b).localeCompare(timeOf(a)));
  return (
    <Table
      label="Events"
      rows={sorted}
      of={sourceOf(query)}
      keyOf={({ metadata }) => metadata.uid ?? metadata.name}
      columns={[...EVENTS.slice(0, 2), ...columns, ...EVENTS.slice(2)]}
      none="No Events in the last hour. Kubernetes keeps Events for one hour."
    />
  );
}

const EVENTS: readonly Column<EventObject>[] = [
  {
    id: "type",
    header: "Type",
    cell: ({ type = "Normal" }) => (
      <State state={{ word: type, level: type === "Warning" ? "warn" : "idle" }} />
    ),
  },
  { id: "reason", header: "Reason", cell: ({ reason = "" }) => <code>{reason}</code> },
  { id: "message", header: "Message", cell: ({ message }) => message, isWide: true },
  {
    id: "seen",
    header: "Seen",
    cell: (event) => `${event.series?.count ?? event.count ?? 1}×`,
    isNumber: true,
  },
  { id: "since", header: "Since", cell: (event) => <Ago at={timeOf(event)} />, isNumber: true },
];

function timeOf({ series, lastTimestamp, eventTime, firstTimestamp, metadata }: EventObject): string {
  const times = [series?.lastObservedTime, lastTimestamp, eventTime, firstTimestamp];
  return times.find((time) => typeof time === "string") ?? metadata.creationTimestamp ?? "";
}

/** With its library, which is large. */
export const YamlView = lazyRouteComponent(() => import("../yaml/editor.tsx"), "YamlView");
