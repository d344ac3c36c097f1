/** What the harness and the load, which runs in the clients' namespace, say to each other: one JSON object a line. */

/** To the load: all its targets, each time something changes. */
export interface Orders {
  readonly targets: readonly Target[];
}

export interface Target {
  readonly service: string;
  readonly url: string;
  readonly requestsPerSecond: number;
  /** Of the gateway, which is asked for the service as its model; absent: the URL is that of the service. */
  readonly key?: string;
}

/** From the load: one finished request. Times are milliseconds since the epoch on a clock that no step moves. */
export interface Result {
  readonly id: number;
  readonly service: string;
  readonly isByGateway: boolean;
  readonly isStreamed: boolean;
  readonly isKeptAlive: boolean;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly firstByteAt?: number;
  /** "" when it was answered in full. */
  readonly failure: string;
  readonly status?: number;
  readonly idleMs?: number;
  readonly ageMs?: number;
  readonly endpoint?: string;
}
