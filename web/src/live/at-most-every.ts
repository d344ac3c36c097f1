/** Calls at once, then at most once in an interval; the last call is never lost. */
export function atMostEvery(
  everyMs: number,
  act: () => void,
): { readonly call: () => void; readonly cancel: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isDue = false;
  const rest = (): void => {
    timer = undefined;
    if (isDue) run();
  };
  const run = (): void => {
    isDue = false;
    act();
    if (everyMs > 0) timer = setTimeout(rest, everyMs);
  };
  return {
    call: () => {
      if (timer === undefined) run();
      else isDue = true;
    },
    cancel: () => clearTimeout(timer),
  };
}
