/** Runs work one after the other, in the order of the calls; a failure holds up nothing. */
export function createSerializer(): RunSerialized {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const turn = last.then(work);
    last = turn.catch(() => undefined);
    return turn;
  };
}

export type RunSerialized = <T>(work: () => Promise<T>) => Promise<T>;
