/** Dependencies of a pass over a service. */
import type { InferenceService, InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import type { RejectionRetries } from "../frame/apply/retries.ts";
import type { FlavorChooser } from "../frame/service/flavor-report.ts";
import type { IdleServices, Use } from "../frame/service/idle-report.ts";
import type { LiveService, ServicePath } from "../frame/service/path.ts";
import type { ScalingPorts } from "./autoscaling/scale.ts";
import type { ForeignServices } from "./foreign-services.ts";
import type { NamespaceReader } from "./model-names.ts";
import type { ObjectivePorts } from "./objectives/objective.ts";
import type { RoutePorts } from "./routes/route.ts";
import type { StatusPorts } from "./status.ts";

/** Live performance of services. */
export interface ServicePerformance {
  /** Returns the performance for the status, the use of the replicas, and when a held-back change is due. */
  readonly update: (
    live: Pick<LiveService, "key" | "service" | "own">,
  ) => { readonly performance: InferenceServiceStatus["performance"]; readonly use: Use } & Partial<Recheck>;
  readonly forget: (key: string) => void;
}

export interface ServicePorts
  extends ScalingPorts,
    RoutePorts,
    ObjectivePorts,
    Pick<StatusPorts, "lastStatus"> {
  readonly writeStatus: (service: InferenceService, status: InferenceServiceStatus) => Promise<void>;
  readonly foreign: ForeignServices;
  readonly namespaces: NamespaceReader;
  readonly retries: RejectionRetries;
  readonly performance: ServicePerformance;
  readonly flavors: FlavorChooser;
  readonly idle: IdleServices;
  /** The first path takes the services that belong to no other. */
  readonly paths: readonly [ServicePath, ...ServicePath[]];
}
