/** Reads a service and its revisions from the API server. */
import { LABEL_SERVICE_UID } from "../../src/api/group.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { type HistoryEntry, historyOf } from "../../src/capacity/rollback/history.ts";
import { CONTROLLER_REVISIONS } from "../../src/kube/kinds.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { findObject, listAll } from "../cluster/find.ts";

interface ServiceHistory {
  readonly service: InferenceService;
  /** Oldest first. */
  readonly history: readonly HistoryEntry[];
}

export async function readServiceHistory(cluster: Cluster, name: string): Promise<ServiceHistory> {
  const service = await findObject(cluster, INFERENCE_SERVICES, name);
  const revisions = await listAll(cluster, CONTROLLER_REVISIONS, {
    namespace: cluster.namespace,
    labelSelector: `${LABEL_SERVICE_UID}=${service.metadata.uid}`,
  });
  return { service, history: historyOf(service, revisions) };
}
