/** Sizes of a model per layer, with upper bounds for values that the header does not state. */
import type { ModelSizing } from "../../../../api/fields/gguf.ts";
import { type GgufSummary, isSlidingIn } from "../../../../models/gguf/summary.ts";

export type LayerKind = "attention" | "windowed" | "recurrent" | "both" | "neither";

export interface ModelShape {
  readonly layers: readonly LayerKind[];
  /** Key-value heads per layer, for layers with their own cache. */
  readonly kvHeads: readonly number[];
  readonly width: number;
  readonly heads: number;
  readonly keyLength: number;
  readonly valueLength: number;
  readonly feedForward: number;
  readonly vocabulary: number;
  readonly experts: ExpertShape | undefined;
  readonly latent: ModelSizing["latent"];
  readonly recurrent: ModelSizing["recurrent"];
  readonly traits: ReadonlySet<string>;
}

export interface ExpertShape {
  readonly count: number;
  readonly used: number;
  readonly width: number;
  readonly sharedWidth: number;
  readonly denseLayers: number;
}

/** More layers than any model has; larger numbers are invalid. */
const MAX_LAYERS = 4096;
/** Feed-forward width in multiples of the model width, if it is unknown: larger than in nearly all models. */
const FEED_FORWARD_GUESS = 4;
/** Size of the vocabulary if it is unknown: the largest in use. */
const LARGE_VOCABULARY = 262_144;

export function modelShape(summary: GgufSummary): ModelShape {
  const { sizing, headCount = 0, embeddingSize: width = 0 } = summary;
  const layers = layerKindsOf(summary);
  const heads = headCount;
  return {
    layers,
    kvHeads: layers.map((_, layer) => sizing?.headCountKVByLayer?.[layer] ?? summary.headCountKV ?? heads),
    width,
    heads,
    keyLength: summary.keyLength ?? 0,
    valueLength: summary.valueLength ?? 0,
    feedForward: summary.feedForwardLength ?? FEED_FORWARD_GUESS * width,
    vocabulary: summary.vocabularySize ?? LARGE_VOCABULARY,
    experts: expertsOf(summary),
    latent: sizing?.latent,
    recurrent: sizing?.recurrent,
    traits: new Set(sizing?.traits),
  };
}

const KINDS: Readonly<Record<string, LayerKind>> = {
  a: "attention",
  w: "windowed",
  r: "recurrent",
  b: "both",
  n: "neither",
};

/** A layer that is not known to be windowed counts in full. */
function layerKindsOf({
  layerCount = 0,
  sizing,
  slidingWindow,
  slidingWindowPattern,
}: GgufSummary): LayerKind[] {
  const period = slidingWindow === undefined ? 1 : slidingWindowPattern || 1;
  return Array.from({ length: Math.min(layerCount, MAX_LAYERS) }, (_, layer) => {
    const letter = sizing?.layerKinds?.[layer];
    if (letter !== undefined) return KINDS[letter] ?? "attention";
    return isSlidingIn(period, layer) ? "windowed" : "attention";
  });
}

function expertsOf({ sizing, expertCount = 0, feedForwardLength = 0 }: GgufSummary): ExpertShape | undefined {
  if (sizing?.expertsUsed === undefined || expertCount === 0) return undefined;
  return {
    count: expertCount,
    used: sizing.expertsUsed,
    width: sizing.expertWidth ?? feedForwardLength,
    sharedWidth: sizing.sharedExpertWidth ?? 0,
    denseLayers: sizing.denseLayers ?? 0,
  };
}
