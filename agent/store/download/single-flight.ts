/** Allows one run per key at a time. Later callers join it, and it is aborted once its last caller has left. */

export interface SingleFlight<T, Caller extends { readonly signal: AbortSignal }> {
  /** `isOwn`: this call started the run. */
  readonly join: (
    key: string,
    caller: Caller,
    start: (signal: AbortSignal, callers: ReadonlySet<Caller>) => Promise<T>,
  ) => { readonly done: Promise<T>; readonly isOwn: boolean };
}

interface Run<T, Caller> {
  readonly done: Promise<T>;
  readonly callers: Set<Caller>;
  readonly controller: AbortController;
}

export function createSingleFlight<T, Caller extends { readonly signal: AbortSignal }>(): SingleFlight<
  T,
  Caller
> {
  const runs = new Map<string, Run<T, Caller>>();
  /** Abandoned runs that have not closed their files yet. The next run of the key waits for them. */
  const stopping = new Map<string, Promise<unknown>>();
  const abandon = (key: string, run: Run<T, Caller>, reason: unknown): void => {
    // The run is removed from the map immediately, so that no new caller joins a run that is stopping.
    if (runs.get(key) !== run) return;
    runs.delete(key);
    const stopped = run.done
      .catch(() => undefined)
      .finally(() => {
        if (stopping.get(key) === stopped) stopping.delete(key);
      });
    stopping.set(key, stopped);
    run.controller.abort(reason);
  };
  return {
    join: (key, caller, start) => {
      const existing = runs.get(key);
      const run = existing ?? launch(start, stopping.get(key));
      run.callers.add(caller);
      if (existing === undefined) {
        runs.set(key, run);
        const forget = (): void => {
          if (runs.get(key) === run) runs.delete(key);
        };
        run.done.then(forget, forget);
      }
      const done = untilAborted(run.done, caller.signal).finally(() => {
        run.callers.delete(caller);
        if (run.callers.size === 0) abandon(key, run, caller.signal.reason);
      });
      return { done, isOwn: existing === undefined };
    },
  };
}

function launch<T, Caller>(
  start: (signal: AbortSignal, callers: ReadonlySet<Caller>) => Promise<T>,
  before: Promise<unknown> | undefined,
): Run<T, Caller> {
  const controller = new AbortController();
  const callers = new Set<Caller>();
  const run = async (): Promise<T> => {
    await before;
    return start(controller.signal, callers);
  };
  return { done: run(), callers, controller };
}

/** Rejects with the signal's reason when it is aborted first. */
async function untilAborted<T>(done: Promise<T>, signal: AbortSignal): Promise<T> {
  let leave = (): void => undefined;
  const left = new Promise<never>((_, reject) => {
    leave = () => reject(signal.reason);
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
  });
  try {
    return await Promise.race([done, left]);
  } finally {
    signal.removeEventListener("abort", leave);
  }
}
