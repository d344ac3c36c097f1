/** Dependencies of the path of pods. */
import type { ControllerPorts } from "../frame/ports.ts";
import type { NodeProbes } from "./node-probes.ts";
import type { OffloadReader } from "./offload.ts";
import type { PodsQueue } from "./queue.ts";
import type { PodsSettings } from "./workload/contract.ts";

export interface PodsPorts extends ControllerPorts {
  readonly settings: PodsSettings;
  readonly podsQueue: PodsQueue;
  readonly offloads: OffloadReader;
  readonly nodeProbes: NodeProbes;
  /** Called with the services whose positions in the queue have changed. */
  readonly onPositions: (services: readonly string[]) => void;
}
