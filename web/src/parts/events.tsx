/** Events of objects, newest first; asked for again when an object changes. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type ApiObject, listObjects } from "../api/kube.ts";
import { Failure, Skeleton } from "./notice.tsx";
import { type PlainColumn, PlainTable } from "./plain-table.tsx";
import { State } from "./state.tsx";
import { Ago } from "./time.tsx";

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
  readonly columns?: readonly PlainColumn<EventObject>[];
}

export function EventList({ namespace, selectors, version, columns = [] }: EventListProps) {
  const { data, error, refetch } = useQuery({
    queryKey: ["events", namespace, selectors, version],
    queryFn: async ({ signal }) => {
      const lists = selectors.map((fieldSelector) =>
        listObjects<EventObject>({ resource: "events", namespace }, { fieldSelector }, signal),
      );
      return (await Promise.all(lists)).flat();
    },
    placeholderData: keepPreviousData,
  });
  if (error !== null && data === undefined) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Skeleton />;
  const sorted = [...data].sort((a, b) => timeOf(b).localeCompare(timeOf(a)));
  return (
    <PlainTable
      label="Events"
      rows={sorted}
      keyOf={({ metadata }) => metadata.uid ?? metadata.name}
      columns={[...COLUMNS.slice(0, 2), ...columns, ...COLUMNS.slice(2)]}
      none="No Events in the last hour. Kubernetes keeps Events for one hour."
    />
  );
}

const COLUMNS: readonly PlainColumn<EventObject>[] = [
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
