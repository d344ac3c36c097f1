/** Dependencies of the path of hosts. */

import type { ControllerPorts } from "../frame/ports.ts";
import type { ControllerScheduler } from "../frame/scheduler/scheduler.ts";
import type { IdleServices } from "../frame/service/idle-report.ts";
import type { SealedTransport } from "../frame/service/transport.ts";
import type { DrainBlockers } from "./host/drain-blockers.ts";
import type { ServiceMemory } from "./memory.ts";

export interface HostsPathPorts extends ControllerPorts {
  readonly scheduler: ControllerScheduler;
  readonly memory: ServiceMemory;
  readonly idle: Pick<IdleServices, "offer" | "yieldsTo">;
  readonly transport: SealedTransport;
  readonly drainBlockers: DrainBlockers;
  /** Called if the reasons why replicas stay on these draining hosts have changed. */
  readonly onDrainBlockers: (hosts: readonly string[]) => void;
  /** Runs placement again, after hosts, claims or demands have changed. */
  readonly onQueueChanged: () => void;
  /** Called if placement may have new results for these services. */
  readonly onDecided: (services: readonly string[]) => void;
}
