/** The agent's inputs and its parts. */
import type { Tally } from "../src/http/metrics/tally.ts";
import type { Clock, Log } from "../src/ports.ts";
import type { Environment } from "./config/environment.ts";
import type { AgentConfig } from "./config/schema.ts";
import type { LateEndpoints } from "./endpoints/late-endpoints.ts";
import type { AddressAnswer, AddressesUp } from "./host/addresses.ts";
import type { KeptHost } from "./registration/kept-host.ts";
import type { LateClient } from "./registration/late-client.ts";
import type { HostObserver } from "./registration/observe-host.ts";
import type { ReplicaRunner } from "./replicas/ports.ts";
import type { AgentState } from "./state-views.ts";
import type { ModelStore } from "./store/types.ts";

export interface Wiring {
  readonly config: AgentConfig;
  readonly environment: Environment;
  readonly log: Log;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Aborted last, once the agent has also withdrawn from the cluster. */
  readonly endSignal: AbortSignal;
}

export interface Parts {
  readonly state: AgentState;
  readonly keptHost: KeptHost;
  readonly store: ModelStore;
  readonly observer: HostObserver;
  readonly runner: ReplicaRunner;
  readonly lateClient: LateClient;
  readonly lateEndpoints: LateEndpoints;
  readonly address: () => AddressAnswer;
  readonly up: AddressesUp;
  readonly counted: Counted;
}

/** Counts that no other part keeps. */
export interface Counted {
  readonly startedAtMs: number;
  readonly apiRequests: Tally;
  downloadedBytes: number;
}
