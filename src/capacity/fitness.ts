/** Fitness as the core sees it: which machines suit a replica. `fitness/` implements it, and the core runs without. Types alone. */
import type { EngineSettings } from "../api/engine-settings.ts";
import type { Accelerator } from "../api/fields/hardware.ts";
import type { Host } from "../api/host.ts";
import type { NodeReportRead } from "../api/node-report.ts";
import type { Node } from "../kube/workload-objects.ts";

export interface Fitness {
  /** What a Node says of itself, and what its report knows better. */
  readonly readNode: (node: Node, report?: NodeReportRead) => NodeRead;
  /** Why too little is known of it for a score; undefined where enough is. */
  readonly nodeProblem: (node: NodeRead) => string | undefined;
  readonly forReplica: (need: ReplicaNeed) => ReplicaScorer;
  /** Keeps what it has observed in memory. */
  readonly createMoveJudge: (settings: MoveSettings) => MoveJudge;
}

export interface NodeGpus {
  readonly accelerator: Accelerator;
  readonly backend: string;
  readonly name: string;
  readonly count: number;
  /** Undefined where no label says it. */
  readonly bytesEach: number | undefined;
  /** Pods get parts of them (MIG): the labels speak of parts, a report of whole ones. */
  readonly isSliced?: boolean;
}

export interface NodeRead {
  readonly name: string;
  /** What `kubernetes.io/hostname` says, which node affinity selects by. */
  readonly hostname: string;
  readonly arch: string | undefined;
  readonly totalBytes: number | undefined;
  readonly allocatableBytes: number | undefined;
  readonly cores: number | undefined;
  readonly gpus: NodeGpus | undefined;
  /** Why its labels or its report are not plausible. */
  readonly unusable?: string;
}

/** What a pod computes on: on the CPU where it takes no GPUs. */
export interface PodAccelerator {
  readonly accelerator: Accelerator;
  readonly gpus: number;
}

/** How the engine loads the weights, where that is not as the catalog has them. */
export interface Loading {
  /** Absent: the files are of another format. `bytes`: of the weights, or of all files; undefined while nothing is read. */
  readonly safetensors?: { readonly bytes: number | undefined };
  /** The machine holds less than the files have and a context needs, and how much is not known. */
  readonly loadsLess?: boolean;
}

/** What one replica needs of a machine, as far as its Model and its service tell. */
export interface ReplicaNeed {
  readonly source: string;
  /** From the header, as the Model's status has it, or what is asked for. */
  readonly quantization?: string | undefined;
  /** Of the Model: their names may say the quantization too. */
  readonly files?: readonly string[] | undefined;
  readonly settings: Pick<EngineSettings, "contextSize" | "cacheTypeK" | "cacheTypeCustomK"> & Loading;
  /** From the header of the file, as admission and placement count; undefined where that is not read, or no estimate is possible. */
  readonly claimBytes?: ((accelerator: Accelerator) => number | undefined) | undefined;
}

/** A whole host, or the part of a node that one pod would have. */
export type ReplicaPlace =
  | { readonly host: Host }
  | { readonly node: NodeRead; readonly pod: PodAccelerator };

export interface ReplicaScorer {
  readonly fitOn: (place: ReplicaPlace) => ReplicaFit;
  /** "with Q4_K_M and a context of 8192 it needs 9.1 GiB": what else of the model fits; undefined where nothing does. */
  readonly smallerFitOn: (place: ReplicaPlace) => string | undefined;
}

export type ReplicaFit =
  | {
      readonly at: "fits";
      readonly claimBytes: number;
      readonly budgetBytes: number;
      /** 0 to 100, and tokens per second; absent where the model is not in the catalog. */
      readonly scored?: {
        readonly score: number;
        readonly tokensPerSecond: { readonly value: number; readonly basis: string };
      };
    }
  | { readonly at: "tooSmall"; readonly claimBytes: number; readonly budgetBytes: number }
  | { readonly at: "unknown"; readonly why: string }
  /** It lacks the GPUs that the pod asks for, which the scheduler sees. */
  | { readonly at: "noGpus" };

/** When a replica leaves a machine whose fitness for its model has fallen. */
export interface MoveSettings {
  /** Part of the best score seen, from 0 to 1, by which a score must have fallen. */
  readonly threshold: number;
  /** So many observations in a row. */
  readonly observations: number;
  /** Between two moves of one service. */
  readonly cooldownMs: number;
  /** A replica is not moved before it has been on its machine for this time. */
  readonly minimumStayMs: number;
}

/** One replica, or one ready pod, as it is now. */
export interface Observation {
  /** Unique, also after its name is used again. */
  readonly replica: string;
  /** `namespace/name` */
  readonly service: string;
  readonly on: string;
  readonly sinceMs: number;
  /** 0 to 100; 0 where the machine no longer holds the model; undefined where it is not known now. */
  readonly score: number | undefined;
}

export interface MoveCandidate {
  readonly name: string;
  readonly score: number;
  /** It would take the replica now. */
  readonly isOpen: boolean;
}

export interface Move {
  readonly replica: string;
  readonly service: string;
  readonly to: MoveCandidate;
  readonly because: string;
  /** Machines known to be no better, by name: whoever places the replica has other criteria, and must not take one of them. */
  readonly notTo: readonly string[];
}

/** At most one move for each service, each to a strictly better machine. */
export type MoveJudge = (
  observations: readonly Observation[],
  candidatesFor: (replica: string) => readonly MoveCandidate[],
  nowMs: number,
) => readonly Move[];
