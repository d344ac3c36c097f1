/** Computes the scores of new classes in slices between requests, so no request waits for the whole catalog. */
import type { Density } from "./density.ts";

/** A fit takes microseconds, but milliseconds for the first one of a model. */
const FITS_AT_ONCE = 4;

/** Runs until the signal aborts. The returned function is true once everything in the first lists has its scores. */
export function precomputeFits(
  density: Pick<Density, "fits" | "onChange">,
  isListed: () => boolean,
  signal: AbortSignal,
): () => boolean {
  let next: NodeJS.Immediate | undefined;
  let areScored = false;
  const check = (): boolean => {
    areScored ||= next === undefined && isListed();
    return areScored;
  };
  const work = (): void => {
    next = density.fits.precompute(FITS_AT_ONCE) ? setImmediate(work) : undefined;
    check();
  };
  const stop = density.onChange(() => {
    next ??= setImmediate(work);
  });
  signal.addEventListener(
    "abort",
    () => {
      stop();
      clearImmediate(next);
    },
    { once: true },
  );
  return check;
}
