/** Records Events about our objects, and reads the Events of other components. */
import type { RecordEvent } from "../../../src/kube/event/events.ts";
import { EVENTS } from "../../../src/kube/kinds.ts";
import type { KubeEvent } from "../../../src/kube/objects.ts";
import type { Kind, KubeClient, KubeObject } from "../../../src/kube/types.ts";

export interface ReportedEvent {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly action: string;
  readonly note: string;
}

/** Records an Event. The caller names the kind, because objects from a list do not carry it. */
export function reportOn<T extends KubeObject>(
  record: RecordEvent,
  kind: Kind<T>,
  { metadata }: T,
  event: ReportedEvent,
): void {
  const { name, namespace, uid } = metadata;
  record({ apiVersion: `${kind.group}/${kind.version}`, kind: kind.kind, name, namespace, uid }, event);
}

/** The Events about an object; empty if they cannot be read. */
export async function readEvents(
  client: KubeClient,
  { metadata }: KubeObject,
): Promise<readonly KubeEvent[]> {
  const { namespace = "default", uid } = metadata;
  const listed = await client.list(EVENTS, { namespace, fieldSelector: `regarding.uid=${uid}` });
  return listed.ok ? listed.value.items : [];
}

/** Sorts Events about one object by resourceVersion, which is the order in which they were last repeated. */
export function newestEventFirst(events: readonly KubeEvent[]): readonly KubeEvent[] {
  const version = ({ metadata }: KubeEvent) => Number(metadata.resourceVersion ?? 0);
  return events.toSorted((a, b) => version(b) - version(a));
}
