/** Settings that make an engine smaller, and which of them would make it fit. Pure: the claim is worked out by the caller. */
import type { EngineSettings } from "../../api/engine-settings.ts";
import { formatBytes } from "../../util/bytes.ts";
import type { Backend } from "../placement/types.ts";

export type SizeSettings = Pick<
  EngineSettings,
  "contextSize" | "parallelSlots" | "cacheTypeK" | "cacheTypeV" | "promptCacheMiB" | "flashAttention"
>;

/** The claim with other settings, on a host of this kind; undefined where no estimate is possible. */
export type ClaimWith = (change: Partial<SizeSettings>, on?: Backend) => number | undefined;

export interface Suggestion {
  /** What to change, by the names of InferenceService.spec. */
  readonly change: Partial<SizeSettings>;
  readonly claimBytes: number;
  /** "contextSize 16384 (now 32768): 30.1 GiB" */
  readonly text: string;
}

const CONTEXT_STEP = 256;
/** Less than this for a request is no service. */
const MIN_CONTEXT_PER_SLOT = 1024;
/** The mildest first. */
const CACHE_TYPES = ["q8_0", "q4_0"] as const;
const SMALLER_CACHES: readonly string[] = CACHE_TYPES;

/** Each change that is enough alone; if none is, all of them together; empty if not even that helps. */
export function suggestFor(
  roomBytes: number,
  settings: SizeSettings,
  claimWith: ClaimWith,
  on?: Backend,
): readonly Suggestion[] {
  const fits = (change: Partial<SizeSettings>) => {
    const claimBytes = claimWith(change, on);
    if (claimBytes === undefined || claimBytes > roomBytes) return undefined;
    return { change, claimBytes, text: `${inWords(change, settings)}: ${formatBytes(claimBytes)}` };
  };
  const single = [
    cacheChanges(settings)
      .map(fits)
      .find((one) => one !== undefined),
    fits(largestContext(settings, {}, fits)),
    fits(mostSlots(settings, fits)),
    settings.promptCacheMiB === 0 ? undefined : fits({ promptCacheMiB: 0 }),
  ].filter((one) => one !== undefined && Object.keys(one.change).length > 0);
  if (single.length > 0) return unique(single);
  for (const cache of [...cacheChanges(settings), {}]) {
    const small = { ...cache, ...(settings.promptCacheMiB === 0 ? {} : { promptCacheMiB: 0 }) };
    const together = fits({ ...small, ...largestContext(settings, small, fits) });
    if (together !== undefined && Object.keys(together.change).length > 0) return [together];
  }
  return [];
}

type Fits = (change: Partial<SizeSettings>) => Suggestion | undefined;

/** The mildest first; a quantised cache needs flash attention. */
function cacheChanges({ cacheTypeK, cacheTypeV, flashAttention }: SizeSettings): Partial<SizeSettings>[] {
  if (flashAttention === false) return [];
  const rank = (type: string | undefined) => (type === undefined ? -1 : SMALLER_CACHES.indexOf(type));
  const now = Math.min(rank(cacheTypeK), rank(cacheTypeV));
  return CACHE_TYPES.filter((_, index) => index > now).map((type) => ({
    cacheTypeK: type,
    cacheTypeV: type,
  }));
}

/** The largest context that fits besides other changes, by bisection; the least there is where none does. */
function largestContext(
  settings: SizeSettings,
  others: Partial<SizeSettings>,
  fits: Fits,
): Partial<SizeSettings> {
  const { contextSize = 0, parallelSlots = 1 } = settings;
  const least = Math.ceil((MIN_CONTEXT_PER_SLOT * parallelSlots) / CONTEXT_STEP);
  let low = least;
  let high = Math.floor(contextSize / CONTEXT_STEP);
  if (high <= low) return {};
  if (fits({ ...others, contextSize: low * CONTEXT_STEP }) === undefined)
    return { contextSize: low * CONTEXT_STEP };
  while (high - low > 1) {
    const middle = (low + high) >>> 1;
    if (fits({ ...others, contextSize: middle * CONTEXT_STEP }) === undefined) high = middle;
    else low = middle;
  }
  return { contextSize: low * CONTEXT_STEP };
}

/** Fewer requests at once, each with as much context as before. */
function mostSlots({ contextSize = 0, parallelSlots = 1 }: SizeSettings, fits: Fits): Partial<SizeSettings> {
  const perSlot = Math.floor(contextSize / Math.max(1, parallelSlots));
  const changeTo = (slots: number) => ({ parallelSlots: slots, contextSize: perSlot * slots });
  let low = 1;
  let high = parallelSlots;
  if (high <= 1 || fits(changeTo(1)) === undefined) return {};
  while (high - low > 1) {
    const middle = (low + high) >>> 1;
    if (fits(changeTo(middle)) === undefined) high = middle;
    else low = middle;
  }
  return changeTo(low);
}

function inWords(change: Partial<SizeSettings>, settings: SizeSettings): string {
  const { cacheTypeK, cacheTypeV, parallelSlots, contextSize, promptCacheMiB } = change;
  const words: string[] = [];
  if (parallelSlots !== undefined)
    words.push(`parallelSlots ${parallelSlots} (now ${settings.parallelSlots ?? 1})`);
  if (contextSize !== undefined) words.push(`contextSize ${contextSize} (now ${settings.contextSize ?? 0})`);
  if (cacheTypeK !== undefined && cacheTypeV !== undefined)
    words.push(`cacheTypeK and cacheTypeV ${cacheTypeK}`);
  if (promptCacheMiB !== undefined)
    words.push(`promptCacheMiB ${promptCacheMiB} (now ${settings.promptCacheMiB ?? 0})`);
  return words.join(", ");
}

function unique(suggestions: readonly (Suggestion | undefined)[]): readonly Suggestion[] {
  const byText = new Map(suggestions.flatMap((one) => (one === undefined ? [] : [[one.text, one] as const])));
  return [...byText.values()];
}
