/** Memory of an engine: the claim, and notes on unusual values. */
import type { EngineSettings } from "../../api/engine-settings.ts";
import type { Accelerator } from "../../api/fields/hardware.ts";
import type { ReplicaMemory } from "../../api/inference-replica.ts";
import type { GgufSummary } from "../../models/gguf/summary.ts";

/** The claim and its parts, each rounded up to whole bytes. */
export type MemoryClaim = Readonly<ReplicaMemory>;

/** Files that count in addition to the model. */
export interface ClaimFiles {
  readonly projectorSizeBytes?: number | undefined;
  readonly draft?: GgufSummary | undefined;
  /** Total size of all LoRA adapters. */
  readonly loraSizeBytes?: number | undefined;
}

/** Laid-out size of the compute buffers in bytes, before the coefficients of a host are applied. */
export interface BufferLayout {
  readonly model: number;
  /** Absent without a draft model. */
  readonly draft?: number | undefined;
}

export interface ClaimEstimator {
  /** Estimates the claim on a host with this accelerator. Throws `ClaimUnknown` if the header lacks fields. */
  readonly estimate: (
    summary: GgufSummary,
    settings: EngineSettings & ClaimFiles,
    accelerator: Accelerator,
  ) => MemoryClaim;
  /** Lays out the compute buffers; absent if hosts do not measure them for this engine. */
  readonly layOut?: (summary: GgufSummary, settings: EngineSettings & ClaimFiles) => BufferLayout;
  /** Allowed `extraArgs` whose memory the claim does not include. */
  readonly uncountedArgs: readonly string[];
  /** Reason why a request cannot use its full context; undefined if it can. */
  readonly contextWarning: (
    summary: Pick<GgufSummary, "contextLength">,
    settings: EngineSettings,
  ) => string | undefined;
}
