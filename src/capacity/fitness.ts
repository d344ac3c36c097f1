/** Interface of fitness, which scores machines for replicas. `fitness/` implements it; the core also runs without it. */
import type { BenchmarkResult } from "../api/benchmark.ts";
import type { EngineSettings } from "../api/engine-settings.ts";
import type { Accelerator } from "../api/fields/hardware.ts";
import type { Host } from "../api/host.ts";
import type { NodeReportRead } from "../api/node-report.ts";
import type { Node } from "../kube/workload-objects.ts";

/** Bytes per second that the memory of the slowest and the fastest machine of a class can read. */
export interface ClassBandwidth {
  readonly least: number;
  readonly most: number;
}

export interface Fitness {
  /** Combines a Node with its report, which takes precedence. */
  readonly readNode: (node: Node, report?: NodeReportRead) => NodeRead;
  /** Reason why the node cannot be scored; undefined if it can. */
  readonly nodeProblem: (node: NodeRead) => string | undefined;
  /** Measured results correct the speeds of machines of the same class and of neighboring classes. */
  readonly forReplica: (need: ReplicaNeed, measured?: ReadonlyMap<string, BenchmarkResult>) => ReplicaScorer;
  /** Undefined if the class says too little. */
  readonly bandwidthOfClass: (deviceClass: string) => ClassBandwidth | undefined;
  /** Creates a judge that keeps its observations in memory. */
  readonly createMoveJudge: (settings: MoveSettings) => MoveJudge;
}

export interface NodeGpus {
  readonly accelerator: Accelerator;
  readonly backend: string;
  readonly name: string;
  /** For example sm_89; undefined if neither a label nor the report states it. */
  readonly arch?: string | undefined;
  readonly count: number;
  /** Memory of each GPU; undefined if no label states it. */
  readonly bytesEach: number | undefined;
  /** Pods get slices of the GPUs (MIG). Labels describe slices, a report whole GPUs. */
  readonly isSliced?: boolean | undefined;
  /** Several pods share each GPU, by time slicing or MPS. */
  readonly isShared?: boolean | undefined;
}

export interface NodeRead {
  readonly name: string;
  /** Value of `kubernetes.io/hostname`, which node affinity selects by. */
  readonly hostname: string;
  readonly arch: string | undefined;
  readonly totalBytes: number | undefined;
  readonly allocatableBytes: number | undefined;
  readonly cores: number | undefined;
  readonly gpus: NodeGpus | undefined;
  /** Reason why its labels or its report are implausible. */
  readonly unusable?: string;
}

/** Accelerator of a pod: the CPU if it requests no GPUs. */
export interface PodAccelerator {
  readonly accelerator: Accelerator;
  readonly gpus: number;
  /** Requirement of the model's quantization for NVIDIA's GPUs. */
  readonly kernel?: KernelNeed | undefined;
}

/** Requirement of a quantization. */
export interface KernelNeed {
  /** For messages. */
  readonly name: string;
  /** Compute capability without its point, as in sm_75. */
  readonly capability: 70 | 75 | 80;
}

/** Differences between the weights that the engine loads and those in the catalog. */
export interface Loading {
  /** Absent if the files have another format. `bytes` is the size of the weights or of all files; undefined until they are read. */
  readonly safetensors?: { readonly bytes: number | undefined };
  /** The engine loads less than the files contain, by an unknown amount. */
  readonly loadsLess?: boolean;
}

/** Requirements of a replica, as far as its Model and its service state them. */
export interface ReplicaNeed {
  readonly source: string;
  /** Quantization in the header of the file, or the requested one. */
  readonly quantization?: string | undefined;
  /** Files of the Model, whose names may contain the quantization. */
  readonly files?: readonly string[] | undefined;
  readonly settings: Pick<EngineSettings, "contextSize" | "cacheTypeK" | "cacheTypeCustomK"> & Loading;
  /** Claim as calculated for admission and placement; undefined if the header was not read or no estimate is possible. */
  readonly claimBytes?: ((accelerator: Accelerator) => number | undefined) | undefined;
}

/** A host, or the part of a node that a pod would get. */
export type ReplicaPlace =
  | { readonly host: Host }
  | { readonly node: NodeRead; readonly pod: PodAccelerator };

export interface ReplicaScorer {
  readonly fitOn: (place: ReplicaPlace) => ReplicaFit;
  /** Suggests a smaller variant that fits, for example "with Q4_K_M and a context of 8192 it needs 9.1 GiB". */
  readonly smallerFitOn: (place: ReplicaPlace) => string | undefined;
}

export type ReplicaFit =
  | {
      readonly at: "fits";
      readonly claimBytes: number;
      readonly budgetBytes: number;
      /** Score from 0 to 100, and tokens per second; absent if the model is not in the catalog. */
      readonly scored?: {
        readonly score: number;
        readonly tokensPerSecond: { readonly value: number; readonly basis: string };
      };
    }
  | { readonly at: "tooSmall"; readonly claimBytes: number; readonly budgetBytes: number }
  | { readonly at: "unknown"; readonly why: string }
  /** The GPUs of the machine do not run the quantization. */
  | { readonly at: "unsupported"; readonly why: string }
  /** The machine lacks the requested GPUs, which the scheduler detects. */
  | { readonly at: "noGpus" };

/** Conditions for moving a replica off a machine whose fitness for its model has fallen. */
export interface MoveSettings {
  /** Fraction of the best observed score by which the score must have fallen. */
  readonly threshold: number;
  /** Number of consecutive observations. */
  readonly observations: number;
  /** Minimum time between two moves of a service. */
  readonly cooldownMs: number;
  /** Minimum time on a machine before a replica is moved. */
  readonly minimumStayMs: number;
}

/** The current state of a replica, or of a ready pod. */
export interface Observation {
  /** Unique, even if the name is reused. */
  readonly replica: string;
  /** `namespace/name` */
  readonly service: string;
  readonly on: string;
  readonly sinceMs: number;
  /** Score from 0 to 100: 0 if the model no longer fits, undefined if it is unknown. */
  readonly score: number | undefined;
}

export interface MoveCandidate {
  readonly name: string;
  readonly score: number;
  /** The machine can run the replica now. */
  readonly isOpen: boolean;
}

export interface Move {
  readonly replica: string;
  readonly service: string;
  readonly to: MoveCandidate;
  readonly because: string;
  /** Machines that are not better. The scheduler has other criteria, and must not choose one of them. */
  readonly notTo: readonly string[];
}

/** Returns at most one move per service, to a strictly better machine. */
export type MoveJudge = (
  observations: readonly Observation[],
  candidatesFor: (replica: string) => readonly MoveCandidate[],
  nowMs: number,
) => readonly Move[];
