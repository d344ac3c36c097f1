/** Scores of new kinds of machines, computed in slices between requests: no answer waits for the whole catalog. */
import type { Density } from "./density.ts";

/** A fit takes microseconds for a known class, and milliseconds for the first one of a model. */
const FITS_AT_ONCE = 4;

/** Until the signal. Returns whether everything that was listed first has its scores; from then on it is true. */
export function precomputeFits(
  { fits, onChange }: Pick<Density, "fits" | "onChange">,
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
    next = fits.workAhead(FITS_AT_ONCE) ? setImmediate(work) : undefined;
    check();
  };
  const stop = onChange(() => {
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
