/** What a pass over a service works with. */
import type { ControllerPorts } from "../watches/ports.ts";
import type { ForeignServices } from "./foreign-services.ts";
import type { ServicePath } from "./path.ts";
import type { RejectionRetries } from "./retries.ts";
import type { LastStatus } from "./status.ts";

export interface ServicePorts extends ControllerPorts {
  readonly foreign: ForeignServices;
  readonly retries: RejectionRetries;
  /** By service. */
  readonly lastStatus: Map<string, LastStatus>;
  /** The first one takes what no other claims. */
  readonly paths: readonly [ServicePath, ...ServicePath[]];
}
