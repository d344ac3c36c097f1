/** Services whose pods wait for a device, in the order in which kube-scheduler tries them: by priority, then age. */

export interface QueuedService {
  /** `namespace/name`. */
  readonly key: string;
  readonly priority: number;
  /** Wall-clock milliseconds. */
  readonly sinceMs: number;
}

export interface PodsQueue {
  /** Services whose position has changed, without this one. Undefined: it waits no longer. */
  readonly set: (key: string, waiting: QueuedService | undefined) => readonly string[];
  /** 1 is next; undefined if it does not wait. */
  readonly positionOf: (key: string) => number | undefined;
  readonly length: () => number;
}

/** Creation times are whole seconds: within one, those that were seen first come first. */
export function createPodsQueue(): PodsQueue {
  let order: readonly QueuedService[] = [];
  return {
    set: (key, waiting) => {
      const was = order.find((one) => one.key === key);
      if (isSame(was, waiting)) return [];
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

function isSame(a: QueuedService | undefined, b: QueuedService | undefined): boolean {
  return a?.priority === b?.priority && a?.sinceMs === b?.sinceMs;
}

function byTurn(a: QueuedService, b: QueuedService): number {
  return b.priority - a.priority || a.sinceMs - b.sinceMs;
}
