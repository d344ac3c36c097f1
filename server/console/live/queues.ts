/** The topic queues: requests that wait in the gateways, read while a stream watches them. */

import type { QueueRow } from "../../../src/console/rows.ts";
import type { RequestQueue, RequestQueues } from "../../../src/gateway/request-queues.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import { repeat } from "../../../src/util/repeat.ts";
import { namespaceOfKey } from "./lists.ts";
import type { RowSource } from "./table.ts";

/** The sum over all gateways. Gateways have no watch. */
export type ReadQueues = (signal: AbortSignal) => Promise<RequestQueues>;

const READ_MS = 2_000;

export interface WatchedQueues {
  readonly source: RowSource;
  readonly stop: () => void;
}

/** `onRead` is called after each reading. */
export function watchQueues(
  read: ReadQueues,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  onRead: () => void,
): WatchedQueues {
  const stop = new AbortController();
  const { signal } = stop;
  let queues: ReadonlyMap<string, RequestQueue> = new Map();
  const readOnce = async (): Promise<void> => {
    const { queues: found } = await read(signal);
    if (signal.aborted) return;
    queues = new Map(found.map((queue) => [queue.service, queue]));
    onRead();
  };
  void readOnce().catch((err: unknown) => log.error({ err }, "cannot read the queues of gateways"));
  repeat({ clock, log, signal }, READ_MS, readOnce);
  return {
    source: {
      keys: () => queues.keys(),
      rowOf: (key) => {
        const queue = queues.get(key);
        return queue && queueRow(queue);
      },
      rightOf: (key) => ({ kind: "services", namespace: namespaceOfKey(key) }),
      mask: { kind: "services", row: (row) => ({ ...(row as QueueRow), keys: [] }) },
    },
    stop: () => stop.abort(),
  };
}

function queueRow({ service, waiting, longestWaitSeconds, slots, keys }: RequestQueue): QueueRow {
  return {
    service,
    waiting,
    longestWaitSeconds,
    slotsUsed: slots.used,
    slotsTotal: slots.total,
    keys: keys.map(({ key, waiting, longestWaitSeconds }) => ({ key, waiting, longestWaitSeconds })),
  };
}
