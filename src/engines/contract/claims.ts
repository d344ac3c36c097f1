/** An engine's memory for the rest of the system: the claim, and notes on unusual values. */
import type { EngineSettings } from "../../api/engine-settings.ts";
import type { Accelerator } from "../../api/fields/hardware.ts";
import type { GgufSummary } from "../../models/gguf/summary.ts";

/** Bytes: the claim, and its parts, each rounded up. */
export interface MemoryClaim {
  readonly claimBytes: number;
  readonly weightsBytes: number;
  readonly kvBytes: number;
  readonly computeBytes: number;
  readonly outputBytes: number;
  readonly promptCacheBytes: number;
  readonly projectorBytes: number;
  readonly draftBytes: number;
  readonly loraBytes: number;
  readonly overheadBytes: number;
}

/** The files beside the model that count. */
export interface ClaimFiles {
  readonly projectorSizeBytes?: number | undefined;
  readonly draft?: GgufSummary | undefined;
  /** Of all LoRA adapters. */
  readonly loraSizeBytes?: number | undefined;
}

/** Bytes of the compute buffers as laid out, before a host's own coefficients. */
export interface BufferLayout {
  readonly model: number;
  /** Absent without a draft model. */
  readonly draft?: number | undefined;
}

export interface ClaimEstimator {
  /** The claim on a host that computes on this accelerator. Throws `ClaimUnknown` where the header has too little. */
  readonly estimate: (
    summary: GgufSummary,
    settings: EngineSettings & ClaimFiles,
    accelerator: Accelerator,
  ) => MemoryClaim;
  /** For the same engine; absent where hosts do not measure its compute buffers. */
  readonly layOut?: (summary: GgufSummary, settings: EngineSettings & ClaimFiles) => BufferLayout;
  /** Arguments that `extraArgs` may hold, and whose memory the claim does not count. */
  readonly uncountedArgs: readonly string[];
  /** Why a request cannot use all of its context; undefined where it can. */
  readonly contextWarning: (
    summary: Pick<GgufSummary, "contextLength">,
    settings: EngineSettings,
  ) => string | undefined;
}
