/** Events about a replica. */

import { API_VERSION } from "../../../src/api/group.ts";
import { INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import type { EventInput } from "../../../src/kube/event/series.ts";
import type { RunnerContext } from "../context/context.ts";
import { type ReplicaState, refOf } from "../state/state.ts";

/** Records nothing before the first connection, or while the replica's name is not known. */
export function recordReplicaEvent(state: ReplicaState, { cluster }: RunnerContext, event: EventInput): void {
  const ref = refOf(state);
  if (ref === undefined) return;
  cluster()?.recorder(
    { apiVersion: API_VERSION, kind: INFERENCE_REPLICAS.kind, ...ref, uid: state.uid },
    event,
  );
}
