/** The request queues of all models as one gateway reports them at /queues, and their sum over several gateways. */
import { z } from "zod";
import { compareText } from "../util/text.ts";

export const REQUEST_QUEUES_PATH = "/queues";
/** Default port of that path, also in pods. */
export const GATEWAY_HEALTH_PORT = 9468;

const count = z.number().int().nonnegative();
const seconds = z.number().nonnegative();

const waitingKeySchema = z.object({
  key: z.string().describe("Id of the key, or of the user of Kubernetes."),
  waiting: count.describe("Requests of the key that wait."),
  position: count.describe("Position of the next one of them in the queue. 1 is the first."),
  longestWaitSeconds: seconds,
});

const requestQueueSchema = z.object({
  service: z.string().describe("The service, as namespace/name."),
  waiting: count.describe("Requests that wait for a replica."),
  longestWaitSeconds: seconds,
  slots: z.object({
    used: count.describe("Requests that replicas process for the gateway."),
    total: count.describe("Requests that the ready replicas process at a time for the gateway."),
  }),
  keys: z.array(waitingKeySchema).describe("Keys with waiting requests, in the order of their positions."),
});

export const requestQueuesSchema = z.object({
  queues: z.array(requestQueueSchema).describe("One per service, in the order of their names."),
});

export type WaitingKey = z.infer<typeof waitingKeySchema>;
export type RequestQueue = z.infer<typeof requestQueueSchema>;
export type RequestQueues = z.infer<typeof requestQueuesSchema>;

/** Each gateway has its own queues and its share of the slots. A position is the best one among the gateways. */
export function sumRequestQueues(reports: readonly RequestQueues[]): RequestQueues {
  const sums = new Map<string, RequestQueue>();
  for (const queue of reports.flatMap(({ queues }) => queues)) {
    const sum = sums.get(queue.service);
    sums.set(queue.service, sum === undefined ? queue : addQueues(sum, queue));
  }
  return { queues: [...sums.values()].sort((a, b) => compareText(a.service, b.service)) };
}

function addQueues(a: RequestQueue, b: RequestQueue): RequestQueue {
  const keys = new Map<string, WaitingKey>();
  for (const one of [...a.keys, ...b.keys]) {
    const { key, waiting, position } = one;
    const sum = keys.get(key);
    keys.set(key, {
      key,
      waiting: waiting + (sum?.waiting ?? 0),
      position: Math.min(position, sum?.position ?? position),
      longestWaitSeconds: longerOf(one, sum),
    });
  }
  return {
    service: a.service,
    waiting: a.waiting + b.waiting,
    longestWaitSeconds: longerOf(a, b),
    slots: { used: a.slots.used + b.slots.used, total: a.slots.total + b.slots.total },
    keys: [...keys.values()].sort((x, y) => x.position - y.position || compareText(x.key, y.key)),
  };
}

type Waits = Pick<WaitingKey, "longestWaitSeconds">;

function longerOf({ longestWaitSeconds }: Waits, other: Waits | undefined): number {
  return Math.max(longestWaitSeconds, other?.longestWaitSeconds ?? 0);
}
