/** Hooks that read the stream. */
import {
  createContext,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useState,
  useSyncExternalStore,
} from "react";
import type { ApiRefusal, ListTopics, Topic } from "../../../src/console/protocol.ts";
import { atMostEvery } from "./at-most-every.ts";
import type { LiveClient } from "./client.ts";
import type { LinkState } from "./messages.ts";

export const LiveContext = createContext<LiveClient | undefined>(undefined);

export interface Live<R> {
  /** In no particular order. A new array only after a change. */
  readonly rows: readonly R[];
  readonly get: (key: string) => R | undefined;
  /** False until all rows have arrived once. */
  readonly isSynced: boolean;
  readonly refusal: ApiRefusal | undefined;
}

/** The rows of a list, kept current; with `everyMs` at most so often, for pages that compute over all of them. */
export function useList<K extends keyof ListTopics>(topic: K, everyMs = 0): Live<ListTopics[K]> {
  return useRows<ListTopics[K]>(topic, everyMs);
}

/** The objects of a detail topic by their key, such as `service` or `replica/NAME`. */
export function useObjects(topic: Topic): Live<unknown> {
  return useRows<unknown>(topic);
}

/** Several lists of one page: a reader who lacks the right to one of them sees the others. */
export function joinLists(...lists: readonly Pick<Live<unknown>, "isSynced" | "refusal">[]) {
  const isSettled = lists.every(({ isSynced, refusal }) => isSynced || refusal !== undefined);
  const isSynced = isSettled && lists.some((list) => list.isSynced);
  return { isSynced, refusal: isSettled && !isSynced ? lists[0]?.refusal : undefined };
}

export function useLink(): LinkState {
  const live = useLive();
  return useSyncExternalStore(
    useCallback((listener) => live.onLink(listener), [live]),
    () => live.link,
  );
}

/** The server's time, renewed every `everyMs`. */
export function useNow(everyMs = 1_000): number {
  const live = useLive();
  const [nowMs, setNowMs] = useState(() => live.nowMs());
  useEffect(() => {
    const timer = setInterval(() => setNowMs(live.nowMs()), everyMs);
    return () => clearInterval(timer);
  }, [live, everyMs]);
  return nowMs;
}

export function useLive(): LiveClient {
  const live = useContext(LiveContext);
  if (live === undefined) throw new Error("outside of LiveContext");
  return live;
}

function useRows<R>(topic: Topic, everyMs = 0): Live<R> {
  const live = useLive();
  const subscribe = useCallback(
    (listener: () => void) => {
      const calm = atMostEvery(everyMs, listener);
      const leave = live.subscribe(topic, calm.call);
      return () => {
        calm.cancel();
        leave();
      };
    },
    [live, topic, everyMs],
  );
  const state = useSyncExternalStore(subscribe, () => live.topic(topic));
  return useMemo(() => {
    const rows = state.rows as ReadonlyMap<string, R>;
    return {
      rows: [...rows.values()],
      get: (key) => rows.get(key),
      isSynced: state.isSynced,
      refusal: state.refusal,
    };
  }, [state]);
}
