/** The leader's queues, without passes: they collect what is due, in the order in which it became due. */
import type { Queues } from "../../controller/lead/queues.ts";
import type { Queue } from "../../src/kube/queue.ts";
import type { Clock } from "../../src/util/ports.ts";

export interface Due {
  readonly queue: string;
  readonly key: string;
}

export interface SteppedQueues {
  readonly queues: Queues;
  /** Takes the first key that is due. */
  readonly next: () => Due | undefined;
  /** Takes this key away, for a pass over it. */
  readonly take: (due: Due) => void;
}

/** `options` are the names of the queues of options. */
export function createSteppedQueues(clock: Clock, options: readonly string[]): SteppedQueues {
  const due = new Map<string, Due>();
  const planned = new Map<string, { readonly atMs: number; readonly cancel: () => void }>();
  const unplan = (id: string) => {
    planned.get(id)?.cancel();
    planned.delete(id);
  };
  const take = ({ queue, key }: Due) => {
    unplan(`${queue} ${key}`);
    due.delete(`${queue} ${key}`);
  };
  const create = (queue: string): Queue<string> => {
    const enqueue = (key: string) => {
      unplan(`${queue} ${key}`);
      due.set(`${queue} ${key}`, { queue, key });
    };
    const count = (ids: Iterable<string>) => [...ids].filter((id) => id.startsWith(`${queue} `)).length;
    return {
      enqueue,
      enqueueAfter: (key, delayMs) => {
        const id = `${queue} ${key}`;
        const atMs = clock.monotonicMs() + delayMs;
        if (due.has(id) || (planned.get(id)?.atMs ?? Number.POSITIVE_INFINITY) <= atMs) return;
        unplan(id);
        if (delayMs <= 0) enqueue(key);
        else planned.set(id, { atMs, cancel: clock.after(delayMs, () => enqueue(key)) });
      },
      size: () => count(due.keys()) + count(planned.keys()),
      depth: () => count(due.keys()),
    };
  };
  return {
    queues: {
      services: create("services"),
      hosts: create("hosts"),
      fleet: create("fleet"),
      models: create("models"),
      secrets: create("secrets"),
      placement: create("placement"),
      ...Object.fromEntries(options.map((name) => [name, create(name)])),
    },
    next: () => {
      const [first] = due.values();
      if (first !== undefined) take(first);
      return first;
    },
    take,
  };
}
