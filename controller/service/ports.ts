/** Dependencies of a pass over a service. */
import type { ControllerPorts } from "../watches/ports.ts";
import type { RejectionRetries } from "./apply/retries.ts";
import type { ForeignServices } from "./foreign-services.ts";
import type { ServicePath } from "./path.ts";
import type { StatusPorts } from "./status.ts";

export interface ServicePorts extends ControllerPorts, StatusPorts {
  readonly foreign: ForeignServices;
  readonly retries: RejectionRetries;
  /** The first path takes the services that belong to no other. */
  readonly paths: readonly [ServicePath, ...ServicePath[]];
}
