/** Everything that is known of one InferenceService when it is planned. */
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import type { ControllerRevision, EndpointSlice, Service } from "../../../src/kube/objects.ts";

/** What belongs to one uid of a service. */
export interface Belongings {
  readonly replicas: readonly InferenceReplica[];
  readonly slices: readonly EndpointSlice[];
  readonly kubeServices: readonly Service[];
  readonly revisions: readonly ControllerRevision[];
}

export interface ServiceObserved extends Belongings {
  readonly service: InferenceService;
  readonly model?: Model | undefined;
  readonly draftModel?: Model | undefined;
  /** All hosts, by name. */
  readonly hosts: ReadonlyMap<string, Host>;
}
