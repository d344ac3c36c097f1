/** Events of a service, its replicas and its pods. */
import { EventList, type EventObject } from "../../parts/events.tsx";
import type { PlainColumn } from "../../parts/plain-table.tsx";
import { serviceText } from "../../texts/service.ts";
import type { ServiceObjects } from "./service-state.ts";

/** One request for each object. */
const MAX_PARTS = 8;

const OBJECT: PlainColumn<EventObject> = {
  id: "object",
  header: serviceText.events.object,
  cell: ({ involvedObject: { kind, name } = {} }) => (kind === "InferenceService" ? kind : `${kind}/${name}`),
};

export function EventsTab({ objects }: { readonly objects: ServiceObjects }) {
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
