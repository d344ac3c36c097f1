/** The queues of all models as the gateway reports them. Names of keys are in it, and nothing else about who waits. */
import type { RequestQueue, RequestQueues, WaitingKey } from "../../src/gateway/request-queues.ts";
import { compareText } from "../../src/util/text.ts";
import type { ModelQueue } from "./model-queue.ts";
import type { Queues } from "./queues.ts";

export function reportQueues(queues: Queues): RequestQueues {
  const reported = Array.from(queues.list(), ([service, queue]) => reportQueue(service, queue));
  return { queues: reported.sort((a, b) => compareText(a.service, b.service)) };
}

function reportQueue(service: string, queue: ModelQueue): RequestQueue {
  const keys = new Map<string, WaitingKey>();
  let longest = 0;
  for (const [index, { flow, waitedMs }] of queue.order().entries()) {
    const found = keys.get(flow);
    const waited = Math.round(waitedMs / 100) / 10;
    longest = Math.max(longest, waited);
    keys.set(flow, {
      key: flow,
      waiting: 1 + (found?.waiting ?? 0),
      position: found?.position ?? index + 1,
      longestWaitSeconds: Math.max(waited, found?.longestWaitSeconds ?? 0),
    });
  }
  return {
    service,
    waiting: queue.waiting,
    longestWaitSeconds: longest,
    slots: { used: queue.inFlight, total: queue.capacity },
    keys: [...keys.values()],
  };
}
