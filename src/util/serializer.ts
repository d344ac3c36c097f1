/** Runs one work item at a time, in the order of the calls. A failure does not affect later items. */
export function createSerializer(): RunSerialized {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const turn = last.then(work);
    last = turn.catch(() => undefined);
    return turn;
  };
}

export type RunSerialized = <T>(work: () => Promise<T>) => Promise<T>;
