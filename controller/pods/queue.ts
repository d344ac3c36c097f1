/** The queue of services with pending pods, in the order in which kube-scheduler tries them: by priority, then age. */

export interface QueuedService {
  /** `namespace/name`. */
  readonly key: string;
  readonly priority: number;
  /** Wall-clock milliseconds. */
  readonly sinceMs: number;
}

export interface PodsQueue {
  /** Queues the service, or removes it if `waiting` is undefined. Returns the other services whose positions changed. */
  readonly set: (key: string, waiting: QueuedService | undefined) => readonly string[];
  /** Position in the queue, from 1; undefined if the service is not queued. */
  readonly positionOf: (key: string) => number | undefined;
  readonly length: () => number;
}

/** Creation times are whole seconds. Services with equal times keep the order in which they were queued. */
export function createPodsQueue(): PodsQueue {
  let order: readonly QueuedService[] = [];
  return {
    set: (key, waiting) => {
      const queued = order.find((one) => one.key === key);
      if (queued?.priority === waiting?.priority && queued?.sinceMs === waiting?.sinceMs) return [];
      const before = order;
      const others = order.filter((one) => one.key !== key);
      order = waiting === undefined ? others : [...others, waiting].sort(byTurn);
      return order.flatMap((one, index) =>
        one.key !== key && before[index]?.key !== one.key ? [one.key] : [],
      );
    },
    positionOf: (key) => {
      const index = order.findIndex((one) => one.key === key);
      return index === -1 ? undefined : index + 1;
    },
    length: () => order.length,
  };
}

function byTurn(a: QueuedService, b: QueuedService): number {
  return b.priority - a.priority || a.sinceMs - b.sinceMs;
}
