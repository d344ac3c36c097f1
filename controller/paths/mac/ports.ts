/** What the Mac path works with. */
import type { ControllerPorts } from "../../cache/ports.ts";
import type { Stays } from "../../host/stays.ts";
import type { PlacementLedger } from "../../scheduler/ledger.ts";
import type { ServiceMemory } from "./memory.ts";

export interface MacPorts extends ControllerPorts {
  readonly ledger: PlacementLedger;
  readonly memory: ServiceMemory;
  readonly stays: Stays;
  /** Why replicas stay on these hosts, which are being drained, has changed. */
  readonly onStaysChanged: (hosts: readonly string[]) => void;
  /** Hosts, claims or demands have changed: placement is to run again. */
  readonly onQueueChanged: () => void;
  /** Placement may have new answers for these services. */
  readonly onDecided: (services: readonly string[]) => void;
}
