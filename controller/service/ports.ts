/** What a pass over a service works with. */
import type { ControllerPorts } from "../cache/ports.ts";
import type { Stays } from "../host/stays.ts";
import type { PlacementLedger } from "../placement/ledger.ts";
import type { ForeignServices } from "./foreign-services.ts";
import type { ServiceMemory } from "./memory.ts";

export interface ServicePorts extends ControllerPorts {
  readonly ledger: PlacementLedger;
  readonly memory: ServiceMemory;
  readonly stays: Stays;
  readonly foreign: ForeignServices;
  /** What is said of replicas on these hosts, which are being drained, has changed. */
  readonly onStaysChanged: (hosts: readonly string[]) => void;
  /** Hosts, claims or demands have changed: placement is worth another look. */
  readonly onQueueChanged: () => void;
  /** The answers of these services may be others than before. */
  readonly onDecided: (services: readonly string[]) => void;
}
