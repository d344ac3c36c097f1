/** Implements the core's Fitness interface with a catalog of models. */
import type { BenchmarkResult } from "../src/api/benchmark.ts";
import type { Fitness, ReplicaFit, ReplicaPlace } from "../src/capacity/fitness.ts";
import { kernelMismatch } from "../src/capacity/quantization-kernels.ts";
import { createMatcher } from "./catalog/match.ts";
import type { CatalogRecord } from "./catalog/record.ts";
import { createMoveJudge } from "./live-eviction/plan.ts";
import { bandwidthOfClass, calibrate, type SpeedRatio, speedRatios } from "./scoring/calibration.ts";
import { machineOf } from "./scoring/machine.ts";
import { nodeAsReported, nodeMachine, nodeMachineFor, readNode } from "./scoring/node.ts";
import { fitReplica, scoredNeedOf, smallerFit } from "./scoring/replica-fit.ts";

export function createFitness(records: readonly CatalogRecord[]): Fitness {
  const match = createMatcher(records);
  /** By results, which do not change. */
  const known = new WeakMap<ReadonlyMap<string, BenchmarkResult>, readonly SpeedRatio[]>();
  const ratiosOf = (results: ReadonlyMap<string, BenchmarkResult>): readonly SpeedRatio[] => {
    const ratios = known.get(results) ?? speedRatios(results.values(), match);
    known.set(results, ratios);
    return ratios;
  };
  return {
    readNode: (node, report) => nodeAsReported(readNode(node), report),
    nodeProblem: (node) => {
      const read = nodeMachine(node);
      return read.at === "known" ? undefined : read.why;
    },
    forReplica: (requested, measured) => {
      const need = scoredNeedOf(requested, match);
      const ratios = measured === undefined ? [] : ratiosOf(measured);
      return {
        fitOn: (place): ReplicaFit => {
          const read = machineIn(place, ratios);
          if (read.at === "noGpus") return read;
          const unsupported =
            "host" in place ? undefined : kernelMismatch(place.pod.kernel, place.node.gpus?.arch);
          if (unsupported !== undefined) return { at: "unsupported", why: unsupported };
          return read.at === "known" ? fitReplica(need, read.machine) : { at: "unknown", why: read.why };
        },
        smallerFitOn: (place) => {
          const read = machineIn(place, ratios);
          return read.at === "known" ? smallerFit(need, read.machine) : undefined;
        },
      };
    },
    bandwidthOfClass,
    createMoveJudge,
  };
}

function machineIn(place: ReplicaPlace, ratios: readonly SpeedRatio[]) {
  const read = "host" in place ? machineOf(place.host) : nodeMachineFor(place.node, place.pod);
  return read.at === "known" ? { ...read, machine: calibrate(read.machine, ratios) } : read;
}
