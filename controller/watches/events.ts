/** Events about our objects. */
import type { RecordEvent } from "../../src/kube/event/events.ts";
import type { Kind, KubeObject } from "../../src/kube/types.ts";

export interface ReportedEvent {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly action: string;
  readonly note: string;
}

/** Objects from a list carry no kind of their own, so it is named here. */
export function reportOn<T extends KubeObject>(
  record: RecordEvent,
  kind: Kind<T>,
  { metadata }: T,
  event: ReportedEvent,
): void {
  const { name, namespace, uid } = metadata;
  record(
    {
      apiVersion: `${kind.group}/${kind.version}`,
      kind: kind.kind,
      name,
      namespace,
      uid,
    },
    event,
  );
}
