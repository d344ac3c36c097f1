/** Follows objects until a condition holds, a timeout expires, or the user stops it. */

import { silentLog } from "../../local/terminal-log.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { ApiFailure, Kind, KubeObject, ListOptions, Reflector } from "../../src/kube/types.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { printNote } from "../program/output.ts";
import type { Cluster } from "./cluster.ts";
import { explainAttempt } from "./failure.ts";

export type FollowEnd<T> =
  | { readonly at: "finished"; readonly value: T }
  | { readonly at: "timedOut" }
  | { readonly at: "stopped" };

export interface FollowOptions {
  /** The user's Ctrl-C. */
  readonly signal: AbortSignal;
  /** Absent or 0: no limit. */
  readonly timeoutMs?: number;
  /** Called once when the API server stops answering, and once when it answers again. Default: standard error. */
  readonly onProblem?: (message: string) => void;
}

export interface Follower<T> {
  /** Starts a copy of one kind. `onChange` is called after each change once the first lists of all kinds are complete. */
  readonly watch: <O extends KubeObject>(
    kind: Kind<O>,
    options: ListOptions,
    onChange: () => void,
  ) => Reflector<O>;
  readonly finish: (value: T) => void;
  readonly fail: (error: unknown) => void;
}

/** Ends all watches and the timer with the answer. Rejects with the error of `begin` or of an `onChange`. */
export function follow<T>(
  cluster: Cluster,
  { signal, timeoutMs = 0, onProblem = printNote }: FollowOptions,
  begin: (follower: Follower<T>) => void,
): Promise<FollowEnd<T>> {
  const ending = new AbortController();
  return new Promise<FollowEnd<T>>((resolve, reject) => {
    const stop = () => end(() => resolve({ at: "stopped" }));
    const cancel =
      timeoutMs > 0 ? systemClock.after(timeoutMs, () => end(() => resolve({ at: "timedOut" }))) : () => {};
    function end(settle: () => void): void {
      if (ending.signal.aborted) return;
      ending.abort();
      cancel();
      signal.removeEventListener("abort", stop);
      settle();
    }
    if (signal.aborted) return stop();
    signal.addEventListener("abort", stop, { once: true });
    const fail = (error: unknown) => end(() => reject(error));
    begin({
      finish: (value) => end(() => resolve({ at: "finished", value })),
      fail,
      watch: createWatches(cluster, ending.signal, fail, onProblem),
    });
  });
}

interface Watch {
  readonly onChange: () => void;
  isSynced: boolean;
}

function createWatches(
  { connection }: Cluster,
  signal: AbortSignal,
  fail: (error: unknown) => void,
  onProblem: (message: string) => void,
): Follower<never>["watch"] {
  const watches: Watch[] = [];
  let problem: string | undefined;
  const notify = (changed: readonly Watch[]) => {
    if (signal.aborted) return;
    if (problem !== undefined) onProblem("the API server answers again");
    problem = undefined;
    try {
      for (const { onChange } of changed)
        if (!signal.aborted && watches.every(({ isSynced }) => isSynced)) onChange();
    } catch (error) {
      fail(error);
    }
  };
  return (kind, selection, onChange) => {
    const watch: Watch = { onChange, isSynced: false };
    watches.push(watch);
    return startReflector({
      ...selection,
      connection,
      kind,
      signal,
      clock: systemClock,
      log: silentLog,
      onChange: () => watch.isSynced && notify([watch]),
      onSynced: () => {
        watch.isSynced = true;
        notify(watches);
      },
      onFailure: (failure: ApiFailure) => {
        const error = explainAttempt({ verb: "watch", kind, namespace: selection.namespace }, failure);
        // A retry does not grant a right.
        if (failure.kind === "forbidden") return fail(error);
        // The watch recovers from compaction and from a normal close: there is nothing to report.
        if (problem === error.code || failure.kind === "gone") return;
        problem = error.code;
        onProblem(`${error.code}: ${error.message}; still trying`);
      },
    });
  };
}
