/** Whether a machine holds one replica of a service, and how well. Pure. */
import type { EngineSettings } from "../api/engine-settings.ts";
import type { Accelerator } from "../api/fields/hardware.ts";
import { formatBytes } from "../bytes.ts";
import type { Match } from "./catalog/match.ts";
import type { CatalogRecord } from "./catalog/record.ts";
import { type BriefFitness, briefFit, type FitWish } from "./fitness.ts";
import { categoryOf } from "./llmfit/score.ts";
import type { Machine } from "./machine.ts";
import { familiesOn, type Quantization, quantizationIn, quantizationOf } from "./quantizations.ts";
import type { UseCase } from "./score.ts";
import type { Figure } from "./speed.ts";

/** What one replica needs of a machine, as far as it is known. */
export interface ReplicaNeed {
  /** From the header of the file, as admission and placement count; undefined where that is not read, or no estimate is possible. */
  readonly claimBytes?: (accelerator: Accelerator) => number | undefined;
  /** Of the catalogue; undefined where the source means none of its models, or several. */
  readonly record?: CatalogRecord | undefined;
  readonly quantization?: Quantization | undefined;
  /** Tokens. */
  readonly contextSize: number;
  readonly cacheType: string;
}

export type ReplicaFit =
  | {
      readonly at: "fits";
      readonly claimBytes: number;
      readonly budgetBytes: number;
      /** 0 to 100, and tokens per second; absent where the model is not in the catalogue. */
      readonly scored?: { readonly score: number; readonly tokensPerSecond: Figure };
    }
  | { readonly at: "tooSmall"; readonly claimBytes: number; readonly budgetBytes: number }
  | { readonly at: "unknown"; readonly why: string };

export const DEFAULT_CONTEXT = 8192;
const PURPOSES: Readonly<Record<string, UseCase>> = {
  ...{ Embedding: "embedding", Coding: "coding", Multimodal: "vision", Reasoning: "reasoning", Chat: "chat" },
};

/** What the model is made for. */
export function useCaseOf(record: CatalogRecord): UseCase {
  return PURPOSES[categoryOf(record)] ?? "general";
}

export interface NeedInput {
  readonly source: string;
  /** As the Model's status has it, from the header. */
  readonly quantization?: string | undefined;
  readonly match: (name: string) => Match;
  readonly settings: Pick<EngineSettings, "contextSize" | "cacheTypeK" | "cacheTypeCustomK">;
  readonly claimBytes?: ReplicaNeed["claimBytes"] | undefined;
}

export function needOf({ source, quantization, match, settings, claimBytes }: NeedInput): ReplicaNeed {
  const found = match(source);
  const record = found.at === "one" ? found.record : undefined;
  const named = quantization ?? quantizationIn(source) ?? record?.quantization;
  return {
    ...(claimBytes === undefined ? {} : { claimBytes }),
    record,
    quantization: named === undefined ? undefined : quantizationOf(named),
    contextSize: settings.contextSize ?? DEFAULT_CONTEXT,
    cacheType: settings.cacheTypeCustomK ?? settings.cacheTypeK ?? "f16",
  };
}

/** The header's claim decides whether it fits; the catalogue's stands in for it, and says what the fit is worth. */
export function fitReplica(need: ReplicaNeed, machine: Machine): ReplicaFit {
  const { budgetBytes, accelerator } = machine;
  const brief = briefOf(need, machine);
  const claimBytes = need.claimBytes?.(accelerator) ?? brief?.claimBytes;
  if (claimBytes === undefined) return { at: "unknown", why: "nothing says how much memory the model needs" };
  if (claimBytes > budgetBytes) return { at: "tooSmall", claimBytes, budgetBytes };
  if (brief === undefined) return { at: "fits", claimBytes, budgetBytes };
  const scored = { score: brief.score.total, tokensPerSecond: brief.tokensPerSecond };
  return { at: "fits", claimBytes, budgetBytes, scored };
}

/** "with Q4_K_M and a context of 8192 it needs 9.1 GiB": what else of the model fits the machine; undefined where nothing does. */
export function smallerFit(need: ReplicaNeed, machine: Machine): string | undefined {
  const { record } = need;
  if (record === undefined) return undefined;
  for (const contextSize of new Set([need.contextSize, Math.min(need.contextSize, DEFAULT_CONTEXT)])) {
    const brief = briefFit(record, machine, wishOf(need, record, { ...machine, contextSize }));
    if (brief === undefined || brief.level === "too_tight") continue;
    const { quantization, claimBytes } = brief;
    return `with ${quantization} and a context of ${contextSize} it needs ${formatBytes(claimBytes)}`;
  }
  return undefined;
}

function briefOf(need: ReplicaNeed, machine: Machine): BriefFitness | undefined {
  const { record, quantization } = need;
  if (record === undefined || quantization === undefined) return undefined;
  const wish = wishOf(need, record, { ...machine, contextSize: need.contextSize });
  return briefFit(record, machine, { ...wish, families: [quantization.family], quantization });
}

function wishOf(
  { cacheType }: ReplicaNeed,
  record: CatalogRecord,
  { accelerator, contextSize }: { readonly accelerator: Accelerator; readonly contextSize: number },
): FitWish {
  return { useCase: useCaseOf(record), contextSize, cacheType, families: familiesOn(accelerator) };
}
