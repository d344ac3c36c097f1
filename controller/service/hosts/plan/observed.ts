/** The observed state of a service on hosts, as input for its plan. */
import type { Host } from "../../../../src/api/host.ts";
import type { InferenceService } from "../../../../src/api/inference-service/index.ts";
import type { Model } from "../../../../src/api/model.ts";
import type { BenchmarkTable } from "../../../../src/capacity/benchmark/table.ts";
import type { OwnedObjects } from "../../owned/observe.ts";

export interface ServiceObserved
  extends Pick<OwnedObjects, "replicas" | "slices" | "kubeServices" | "revisions"> {
  readonly service: InferenceService;
  readonly model?: Model;
  readonly draftModel?: Model;
  /** In the order of `spec.loraAdapters`. */
  readonly loraModels?: readonly (Model | undefined)[];
  /** All hosts, by name. */
  readonly hosts: ReadonlyMap<string, Host>;
  readonly benchmarks: BenchmarkTable;
}
