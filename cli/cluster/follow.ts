/** Follows objects until a condition holds, a timeout expires, or the user stops it. */

import { silentLog } from "../../local/terminal-log.ts";
import type { MetalbridgeError } from "../../src/api/errors.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { ApiFailure, Kind, KubeObject, ListOptions, Reflector } from "../../src/kube/types.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import type { Cluster } from "./cluster.ts";
import { explainAttempt } from "./failure.ts";

export type FollowEnd<T> =
  | { readonly how: "finished"; readonly value: T }
  | { readonly how: "late" }
  | { readonly how: "stopped" };

export interface FollowOptions {
  /** The user's Ctrl-C. */
  readonly signal: AbortSignal;
  /** 0: no limit. */
  readonly timeoutMs: number;
  /** The API server is away, or back: said once, on standard error. */
  readonly tellTrouble: (message: string) => void;
}

export interface Follower<T> {
  /** Starts a copy of one kind; `onChange` comes after each change once the first list is complete. */
  readonly watch: <O extends KubeObject>(
    kind: Kind<O>,
    options: ListOptions,
    onChange: () => void,
  ) => Reflector<O>;
  readonly finish: (value: T) => void;
  readonly fail: (error: unknown) => void;
}

/** Ends all watches and the timer with the answer. What `begin` throws, later calls included, rejects. */
export function follow<T>(
  cluster: Cluster,
  options: FollowOptions,
  begin: (follower: Follower<T>) => void,
): Promise<FollowEnd<T>> {
  const ending = new AbortController();
  return new Promise<FollowEnd<T>>((resolve, reject) => {
    const stop = () => end(() => resolve({ how: "stopped" }));
    const cancel =
      options.timeoutMs > 0
        ? systemClock.after(options.timeoutMs, () => end(() => resolve({ how: "late" })))
        : () => {};
    function end(settle: () => void): void {
      if (ending.signal.aborted) return;
      ending.abort();
      cancel();
      options.signal.removeEventListener("abort", stop);
      settle();
    }
    if (options.signal.aborted) return stop();
    options.signal.addEventListener("abort", stop, { once: true });
    const fail = (error: unknown) => end(() => reject(error));
    const trouble = createTroubleTeller(options.tellTrouble);
    begin({
      finish: (value) => end(() => resolve({ how: "finished", value })),
      fail,
      watch: (kind, selection, onChange) =>
        watchOne(cluster, { kind, selection, signal: ending.signal, trouble, onChange, fail }),
    });
  });
}

interface WatchCall<O extends KubeObject> {
  readonly kind: Kind<O>;
  readonly selection: ListOptions;
  readonly signal: AbortSignal;
  readonly trouble: TroubleTeller;
  readonly onChange: () => void;
  readonly fail: (error: unknown) => void;
}

function watchOne<O extends KubeObject>({ connection }: Cluster, call: WatchCall<O>): Reflector<O> {
  const { kind, selection, signal, trouble, fail } = call;
  let isSynced = false;
  const look = () => {
    if (signal.aborted || !isSynced) return;
    trouble.over();
    try {
      call.onChange();
    } catch (error) {
      fail(error);
    }
  };
  return startReflector<O>({
    ...selection,
    connection,
    kind,
    signal,
    clock: systemClock,
    log: silentLog,
    onChange: look,
    onSynced: () => {
      isSynced = true;
      look();
    },
    onFailure: (failure) => {
      const error = explainAttempt({ verb: "watch", kind, namespace: selection.namespace }, failure);
      // Waiting does not give a right.
      if (failure.kind === "forbidden") fail(error);
      else trouble.begin(error, failure);
    },
  });
}

interface TroubleTeller {
  readonly begin: (error: MetalbridgeError, failure: ApiFailure) => void;
  readonly over: () => void;
}

function createTroubleTeller(tell: (message: string) => void): TroubleTeller {
  let reported: string | undefined;
  return {
    begin: (error, { kind }) => {
      // A watch recovers from compaction or a normal close: nothing to report.
      if (reported === error.code || kind === "gone") return;
      reported = error.code;
      tell(`${error.code}: ${error.message}; still trying`);
    },
    over: () => {
      if (reported === undefined) return;
      reported = undefined;
      tell("the API server answers again");
    },
  };
}
