/** Scores of new kinds of machines, worked out in slices between requests: no answer waits for the whole catalogue. */
import type { Density } from "./density.ts";

/** Of a known class a fit takes microseconds, the first of a model milliseconds. */
const FITS_AT_ONCE = 4;

/** Until the signal. Returns whether everything that was listed first has its scores; from then on it is true. */
export function workAhead(
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
