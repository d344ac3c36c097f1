/** What the path of hosts works with. */

import type { DrainBlockers } from "../../host/drain-blockers.ts";
import type { ControllerScheduler } from "../../scheduler/scheduler.ts";
import type { ControllerPorts } from "../../watches/ports.ts";
import type { ServiceMemory } from "./memory.ts";

export interface HostsPathPorts extends ControllerPorts {
  readonly scheduler: ControllerScheduler;
  readonly memory: ServiceMemory;
  readonly drainBlockers: DrainBlockers;
  /** The reasons why replicas stay on these draining hosts have changed. */
  readonly onDrainBlockers: (hosts: readonly string[]) => void;
  /** Hosts, claims or demands have changed: run placement again. */
  readonly onQueueChanged: () => void;
  /** Placement may have new answers for these services. */
  readonly onDecided: (services: readonly string[]) => void;
}
