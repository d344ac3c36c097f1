/** What the path of pods works with. */
import type { Match } from "../../../fitness/catalog/match.ts";
import type { ControllerPorts } from "../../watches/ports.ts";
import type { PodsSettings } from "../../workload/contract.ts";
import type { NodeProbes } from "./node-probes.ts";
import type { OffloadReader } from "./offload.ts";
import type { PodsQueue } from "./queue.ts";

export interface PodsPorts extends ControllerPorts {
  readonly linux: PodsSettings;
  readonly podsQueue: PodsQueue;
  readonly offloads: OffloadReader;
  /** Which record of the catalog a source means. */
  readonly matchModel: (name: string) => Match;
  readonly nodeProbes: NodeProbes;
  /** Their positions in the queue have changed. */
  readonly onPositions: (services: readonly string[]) => void;
}
