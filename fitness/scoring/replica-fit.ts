/** Decides if a machine fits one replica of a service, and scores it. Pure. */
import type { Accelerator } from "../../src/api/fields/hardware.ts";
import type { ReplicaFit, ReplicaNeed } from "../../src/capacity/fitness.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import type { Match } from "../catalog/match.ts";
import {
  familiesOn,
  type Quantization,
  quantizationIn,
  quantizationOf,
  SAFETENSORS_BITS,
  safetensorsOf,
} from "../catalog/quantizations.ts";
import type { CatalogRecord } from "../catalog/record.ts";
import { type BriefFitness, briefFit, type FitRequest } from "./fitness.ts";
import type { Machine } from "./machine.ts";

/** The need of one replica; from the catalog if its header has not been read. */
interface ScoredNeed extends Pick<ReplicaNeed, "claimBytes"> {
  /** The catalog's record; undefined if the source matches none or several. */
  readonly record?: CatalogRecord | undefined;
  readonly quantization?: Quantization | undefined;
  /** Reason why the catalog's claim may be too high. */
  readonly doubt?: string | undefined;
  /** Tokens. */
  readonly contextSize: number;
  readonly cacheType: string;
}

export const DEFAULT_CONTEXT = 8192;
const LOADS_LESS =
  "its settings keep a part of the model out of this memory, and the size of that part is unknown";
const NO_QUANTIZATION = "nothing names the quantization of its files";

export function scoredNeedOf(
  { source, quantization, files = [], settings, claimBytes }: ReplicaNeed,
  match: (name: string) => Match,
): ScoredNeed {
  const found = match(source);
  const record = found.at === "one" ? found.record : undefined;
  const named = [source, ...files].reduce((known, text) => known ?? quantizationIn(text), quantization);
  const { safetensors } = settings;
  const { chosen, isGuess } =
    safetensors === undefined
      ? fileOf(record, named)
      : safetensorsIn(record, `${source} ${named ?? ""}`, safetensors.bytes);
  return {
    claimBytes,
    record,
    quantization: chosen,
    doubt: settings.loadsLess === true ? LOADS_LESS : isGuess ? NO_QUANTIZATION : undefined,
    contextSize: settings.contextSize ?? DEFAULT_CONTEXT,
    cacheType: settings.cacheTypeCustomK ?? settings.cacheTypeK ?? "f16",
  };
}

interface Chosen {
  readonly chosen: Quantization | undefined;
  /** True if the quantization is only the usual one. */
  readonly isGuess: boolean;
}

function fileOf(record: CatalogRecord | undefined, named: string | undefined): Chosen {
  if (named !== undefined) return { chosen: quantizationOf(named), isGuess: false };
  const usual = quantizationOf(record?.quantization ?? "");
  return { chosen: usual, isGuess: usual?.isOnLadder === true };
}

function safetensorsIn(record: CatalogRecord | undefined, names: string, bytes: number | undefined): Chosen {
  const chosen = record && safetensorsOf(record, names, bytes);
  return { chosen, isGuess: bytes === undefined && chosen?.bits === SAFETENSORS_BITS };
}

/** The header's claim decides whether it fits; the catalog's stands in for it, and says what the fit is worth. */
export function fitReplica(need: ScoredNeed, machine: Machine): ReplicaFit {
  const { budgetBytes, accelerator } = machine;
  const brief = briefOf(need, machine);
  const known = need.claimBytes?.(accelerator);
  const claimBytes = known ?? brief?.claimBytes;
  if (claimBytes === undefined) return { at: "unknown", why: "the memory that the model needs is unknown" };
  if (claimBytes > budgetBytes) {
    const doubt = known === undefined ? need.doubt : undefined;
    return doubt === undefined ? { at: "tooSmall", claimBytes, budgetBytes } : { at: "unknown", why: doubt };
  }
  if (brief === undefined) return { at: "fits", claimBytes, budgetBytes };
  const scored = { score: brief.score.total, tokensPerSecond: brief.tokensPerSecond };
  return { at: "fits", claimBytes, budgetBytes, scored };
}

/** "with Q4_K_M and a context of 8192 it needs 9.1 GiB": the variant of the model that fits the machine; undefined if none does. */
export function smallerFit(need: ScoredNeed, machine: Machine): string | undefined {
  const { record } = need;
  if (record === undefined) return undefined;
  for (const contextSize of new Set([need.contextSize, Math.min(need.contextSize, DEFAULT_CONTEXT)])) {
    const brief = briefFit(record, machine, fitRequestOf(need, { ...machine, contextSize }));
    if (brief === undefined || brief.level === "too_tight") continue;
    const { quantization, claimBytes } = brief;
    return `with ${quantization} and a context of ${contextSize} it needs ${formatBytes(claimBytes)}`;
  }
  return undefined;
}

function briefOf(need: ScoredNeed, machine: Machine): BriefFitness | undefined {
  const { record, quantization } = need;
  if (record === undefined || quantization === undefined) return undefined;
  const request = fitRequestOf(need, { ...machine, contextSize: need.contextSize });
  return briefFit(record, machine, { ...request, families: [quantization.family], quantization });
}

function fitRequestOf(
  { cacheType }: ScoredNeed,
  { accelerator, contextSize }: { readonly accelerator: Accelerator; readonly contextSize: number },
): FitRequest {
  return { contextSize, cacheType, families: familiesOn(accelerator) };
}
