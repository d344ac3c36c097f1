/** Rows of the console's topics: the part of the cluster's state that lists, cards and charts show. Details are whole objects of the API. */
import type { Performance } from "../api/fields/performance.ts";

/** `word` is shown first; `level` selects its color and icon. */
export interface StateWord {
  readonly word: string;
  readonly level: "ok" | "warn" | "bad" | "idle" | "busy";
}

/** A case that a person must look at. Texts are those of the condition and of the catalog of errors. */
export interface Attention {
  readonly reason: string;
  readonly message: string;
  /** From the catalog: what to do, and a command that does it. */
  readonly remedy?: string;
  readonly command?: string;
  /** Hosts that a service waits for because they are cordoned. */
  readonly cordoned?: readonly string[];
  /** ISO time of the last transition. */
  readonly since?: string;
  readonly level: "warn" | "bad";
}

/** Memory that one replica or pod holds on a machine. */
export interface ClaimRow {
  /** `namespace/name` of the service. Empty if the reader may not see the namespace. */
  readonly service: string;
  readonly replica: string;
  readonly phase: string;
  readonly bytes: number;
  /** Measured footprint of the engine, if known. */
  readonly usedBytes?: number;
}

export interface HostRow {
  readonly name: string;
  readonly kind: "Host" | "Node";
  readonly state: StateWord;
  readonly attention?: Attention;
  readonly isCordoned: boolean;
  readonly isStale: boolean;
  /** Chip of a Mac, model of the GPU, or processor. */
  readonly chip: string;
  readonly os: string;
  /** Metal, CUDA, ROCm, SYCL, CPU (ARM) or CPU (x86). */
  readonly backend: string;
  readonly cores: number;
  readonly gpus: number;
  readonly totalBytes: number;
  /** Memory for engines, including `reserveBytes`; 0 while unknown. */
  readonly budgetBytes: number;
  /** Part of the budget that is kept free (`spec.memory.systemReserve`). */
  readonly reserveBytes: number;
  /** Left for new claims; undefined while unknown. */
  readonly leftBytes?: number;
  readonly pressure: "Normal" | "Warning" | "Critical" | "Unknown";
  readonly claims: readonly ClaimRow[];
  readonly engines: readonly { readonly name: string; readonly version: string }[];
  readonly agentVersion: string;
  /** ISO time of the last report of a stale host. Absent while it is not stale: it reports every few seconds. */
  readonly lastSeen?: string;
  readonly diskFreeBytes?: number;
  readonly diskTotalBytes?: number;
  readonly copies: number;
  /** Models of the catalog that fit; undefined until they are scored. */
  readonly fits?: number;
  readonly address: string;
  readonly resourceVersion: string;
}

export interface ServiceRow {
  readonly namespace: string;
  readonly name: string;
  readonly state: StateWord;
  readonly phase: string;
  /** One sentence: why it is in this phase. */
  readonly message: string;
  readonly attention?: Attention;
  readonly ready: number;
  readonly desired: number;
  readonly model: string;
  readonly quantization: string;
  readonly runtime: string;
  /** Hosts, Pods or Hosts+Pods. */
  readonly on: string;
  readonly mode: string;
  readonly endpoint: string;
  readonly hosts: readonly string[];
  /** Updated of desired replicas during a rollout. */
  readonly rollout?: { readonly updated: number; readonly desired: number };
  readonly performance: Performance;
  /** Tokens per request, if an engine serves fewer than its settings ask for. `why` may be empty. */
  readonly contextCut?: { readonly served: number; readonly asked: number; readonly why: string };
  readonly claimedBytes: number;
  readonly createdAt: string;
  readonly resourceVersion: string;
}

export interface DownloadRow {
  /** Host, or the PersistentVolumeClaim that pods mount. */
  readonly place: string;
  readonly phase: string;
  readonly bytes: number;
  readonly totalBytes?: number;
  readonly bytesPerSecond?: number;
  readonly message?: string;
}

export interface ModelRow {
  readonly namespace: string;
  readonly name: string;
  readonly state: StateWord;
  readonly message: string;
  readonly attention?: Attention;
  readonly source: string;
  readonly family: string;
  readonly format: string;
  readonly quantization: string;
  readonly sizeBytes?: number;
  /** Hosts with a verified copy. */
  readonly copies: readonly string[];
  readonly downloads: readonly DownloadRow[];
  /** `namespace/name` of the services that use it. */
  readonly services: readonly string[];
  readonly benchmarks: number;
  readonly resourceVersion: string;
}

/** Totals of the whole fleet; one row with the key `farm`. */
export interface FarmRow {
  readonly services: { readonly ready: number; readonly total: number };
  /** 0 for a reader who may not list hosts. */
  readonly claimedBytes: number;
  /** Without the memory that is kept free. */
  readonly budgetBytes: number;
  readonly tokensPerSecond: number;
  readonly requestsInFlight: number;
  /** Tokens per second at each 15 s of the last hour that the server has seen, oldest first. */
  readonly history: readonly number[];
}

/** Requests that wait in the gateways, one row per service; keys are `namespace/name`. */
export interface QueueRow {
  readonly service: string;
  readonly waiting: number;
  readonly longestWaitSeconds: number;
  readonly slotsUsed: number;
  readonly slotsTotal: number;
  /** Empty for a reader who may not list the services of all namespaces. */
  readonly keys: readonly {
    readonly key: string;
    readonly waiting: number;
    readonly longestWaitSeconds: number;
  }[];
}
