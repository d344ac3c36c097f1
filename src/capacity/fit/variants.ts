/** Settings that reduce the memory of an engine, and those that would make it fit. Pure; the caller calculates claims. */
import type { EngineSettings } from "../../api/engine-settings.ts";
import { formatBytes } from "../../util/bytes.ts";
import type { ClaimHost } from "../placement/types.ts";

export type SizeSettings = Pick<
  EngineSettings,
  "contextSize" | "parallelSlots" | "cacheTypeK" | "cacheTypeV" | "promptCacheMiB" | "flashAttention"
>;

/** Calculates the claim with other settings; undefined if no estimate is possible. */
export type ClaimWith = (change: Partial<SizeSettings>, on?: ClaimHost) => number | undefined;

export interface Suggestion {
  /** Changes, by the field names of InferenceService.spec. */
  readonly change: Partial<SizeSettings>;
  readonly claimBytes: number;
  /** For example "contextSize 16384 (now 32768): 30.1 GiB". */
  readonly text: string;
}

const CONTEXT_STEP = 256;
/** A smaller context per request is not useful. */
const MIN_CONTEXT_PER_SLOT = 1024;
/** In order of their effect on quality, the smallest first. */
const CACHE_TYPES = ["q8_0", "q4_0"] as const;
const SMALLER_CACHES: readonly string[] = CACHE_TYPES;

/** Suggests each change that is sufficient alone; if none is, all changes together; nothing if that is not enough. */
export function suggestFor(
  roomBytes: number,
  settings: SizeSettings,
  claimWith: ClaimWith,
  on?: ClaimHost,
): readonly Suggestion[] {
  const fits = (change: Partial<SizeSettings>) => {
    const claimBytes = claimWith(change, on);
    if (claimBytes === undefined || claimBytes > roomBytes) return undefined;
    return { change, claimBytes, text: `${describe(change, settings)}: ${formatBytes(claimBytes)}` };
  };
  const single = [
    cacheChanges(settings)
      .map(fits)
      .find((one) => one !== undefined),
    fits(largestContext(settings, {}, fits)),
    fits(mostSlots(settings, fits)),
    settings.promptCacheMiB === 0 ? undefined : fits({ promptCacheMiB: 0 }),
  ].flatMap((one) => (one !== undefined && Object.keys(one.change).length > 0 ? [one] : []));
  if (single.length > 0) return [...new Map(single.map((one) => [one.text, one])).values()];
  for (const cache of [...cacheChanges(settings), {}]) {
    const smaller = { ...cache, ...(settings.promptCacheMiB === 0 ? {} : { promptCacheMiB: 0 }) };
    const combined = fits({ ...smaller, ...largestContext(settings, smaller, fits) });
    if (combined !== undefined && Object.keys(combined.change).length > 0) return [combined];
  }
  return [];
}

type Fits = (change: Partial<SizeSettings>) => Suggestion | undefined;

/** Smaller cache types, which require flash attention. */
function cacheChanges({ cacheTypeK, cacheTypeV, flashAttention }: SizeSettings): Partial<SizeSettings>[] {
  if (flashAttention === false) return [];
  const rank = (type: string | undefined) => (type === undefined ? -1 : SMALLER_CACHES.indexOf(type));
  const now = Math.min(rank(cacheTypeK), rank(cacheTypeV));
  return CACHE_TYPES.filter((_, index) => index > now).map((type) => ({
    cacheTypeK: type,
    cacheTypeV: type,
  }));
}

/** The largest context that fits together with other changes, by bisection; the minimum if none fits. */
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

/** The maximum number of slots that fit, each with its current context. */
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

function describe(change: Partial<SizeSettings>, settings: SizeSettings): string {
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
