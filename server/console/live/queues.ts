/** The topic queues: requests that wait in the gateways, read while a stream watches them. */
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { deniedRight, textOfRight } from "../../../src/console/missing-right.ts";
import type { QueueRow } from "../../../src/console/rows.ts";
import type { RequestQueue, RequestQueues } from "../../../src/gateway/request-queues.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import { repeat } from "../../../src/util/repeat.ts";
import { namespaceOfKey } from "./lists.ts";
import type { RowSource } from "./table.ts";

/** The sum over the gateways that answered, and why one did not. Gateways have no watch. */
export type ReadQueues = (
  signal: AbortSignal,
) => Promise<RequestQueues & { readonly answered: number; readonly problem?: string }>;

const READ_MS = 2_000;

export interface WatchedQueues {
  readonly source: RowSource;
  /** Why there are no rows, if no gateway could be read. */
  readonly refusal: () => MetalbridgeError | undefined;
  readonly stop: () => void;
}

/** `onRead` is called after each reading, with true if the reason for the lack of rows came or went. */
export function watchQueues(
  read: ReadQueues,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  onRead: (isOtherRefusal: boolean) => void,
): WatchedQueues {
  const stop = new AbortController();
  const { signal } = stop;
  let queues: ReadonlyMap<string, RequestQueue> = new Map();
  let refusal: MetalbridgeError | undefined;
  const readOnce = async (): Promise<void> => {
    const { queues: found, answered, problem } = await read(signal);
    if (signal.aborted) return;
    queues = new Map(found.map((queue) => [queue.service, queue]));
    const before = refusal?.message;
    refusal = answered === 0 && problem !== undefined ? unreadable(problem) : undefined;
    onRead(refusal?.message !== before);
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
    refusal: () => refusal,
    stop: () => stop.abort(),
  };
}

/** The account is the server's own, so the reader is not the one who lacks the right. */
function unreadable(problem: string): MetalbridgeError {
  const denied = deniedRight(problem);
  const lacking = denied && `the server's account may not ${textOfRight(denied)}`;
  return new MetalbridgeError("ConsoleQueuesUnreadable", `The queues cannot be read: ${lacking ?? problem}.`);
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
