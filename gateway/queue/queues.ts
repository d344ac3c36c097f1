/** The queues of all models, the replicas that each may use, and the report of what waits. */
import type { RequestQueue, RequestQueues, WaitingKey } from "../../src/gateway/request-queues.ts";
import type { Clock } from "../../src/util/ports.ts";
import { compareText } from "../../src/util/text.ts";
import type { Models } from "../models/models.ts";
import { ModelQueue } from "./model-queue.ts";

export class ModelQueues {
  readonly #models: Pick<Models, "get" | "list">;
  readonly #clock: Clock;
  readonly #queues = new Map<string, ModelQueue>();
  /** Addresses of each model for which Envoy has accepted the configuration. */
  readonly #accepted = new Map<string, ReadonlySet<string>>();
  #gateways = 1;

  constructor(models: Pick<Models, "get" | "list">, clock: Clock) {
    this.#models = models;
    this.#clock = clock;
  }

  /** Must be called when a model has changed or was removed. */
  refresh(key: string): void {
    const model = this.#models.get(key);
    const queue = this.#queues.get(key);
    if (model === undefined) {
      queue?.close();
      this.#queues.delete(key);
      return;
    }
    // A replica gets requests once Envoy knows it, and no more as soon as its slice is gone.
    const accepted = this.#accepted.get(key);
    const endpoints = model.endpoints.filter(({ address }) => accepted?.has(address) === true);
    const current = queue ?? new ModelQueue(this.#clock);
    this.#queues.set(key, current);
    current.update({ ...model, endpoints }, this.#gateways);
  }

  /** Envoy sends requests of the model to these addresses from now on; undefined: it no longer has the model. */
  setAccepted(key: string, addresses: readonly string[] | undefined): void {
    if (addresses === undefined) this.#accepted.delete(key);
    else this.#accepted.set(key, new Set(addresses));
    this.refresh(key);
  }

  /** Number of gateways that share the slots of each replica. */
  setGateways(count: number): void {
    this.#gateways = count;
    for (const { key } of this.#models.list()) this.refresh(key);
  }

  get(key: string): ModelQueue | undefined {
    return this.#queues.get(key);
  }

  list(): Iterable<[string, ModelQueue]> {
    return this.#queues.entries();
  }
}

/** The queues by service. The report names keys, but no users behind them. */
export function reportQueues(queues: ModelQueues): RequestQueues {
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
