/** Implements the core's Fitness interface with a catalog of models. */
import type { Fitness, ReplicaFit, ReplicaPlace } from "../src/capacity/fitness.ts";
import { createMatcher } from "./catalog/match.ts";
import type { CatalogRecord } from "./catalog/record.ts";
import { createMoveJudge } from "./live-eviction/plan.ts";
import { machineOf } from "./scoring/machine.ts";
import { nodeMachine, nodeMachineFor, readNode } from "./scoring/node.ts";
import { fitReplica, scoredNeedOf, smallerFit } from "./scoring/replica-fit.ts";
import { nodeAsReported } from "./scoring/reported.ts";

export function createFitness(records: readonly CatalogRecord[]): Fitness {
  const match = createMatcher(records);
  return {
    readNode: (node, report) => nodeAsReported(readNode(node), report),
    nodeProblem: (node) => {
      const read = nodeMachine(node);
      return read.at === "known" ? undefined : read.why;
    },
    forReplica: (wanted) => {
      const need = scoredNeedOf(wanted, match);
      return {
        fitOn: (place): ReplicaFit => {
          const read = machineIn(place);
          if (read.at === "noGpus") return read;
          return read.at === "known" ? fitReplica(need, read.machine) : { at: "unknown", why: read.why };
        },
        smallerFitOn: (place) => {
          const read = machineIn(place);
          return read.at === "known" ? smallerFit(need, read.machine) : undefined;
        },
      };
    },
    createMoveJudge,
  };
}

function machineIn(place: ReplicaPlace) {
  return "host" in place ? machineOf(place.host) : nodeMachineFor(place.node, place.pod);
}
