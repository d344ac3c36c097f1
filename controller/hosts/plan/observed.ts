/** The observed state of a service on hosts, as input for its plan. */

import type { Host } from "../../../src/api/host.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { BenchmarkTable } from "../../../src/capacity/benchmark/table.ts";
import type { NamedModels } from "../../../src/capacity/named-models.ts";
import type { Blocked } from "../../../src/capacity/resolve.ts";
import type { Transport } from "../../../src/capacity/transport.ts";
import type { OwnedObjects } from "../../frame/owned/observe.ts";
import type { RequestedBackend } from "../../frame/owned/revisions.ts";
import type { TakenFlavor } from "../../frame/service/path.ts";

export interface ServiceObserved
  extends NamedModels,
    Pick<OwnedObjects, "replicas" | "slices" | "relaySlices" | "kubeServices" | "revisions"> {
  readonly service: InferenceService;
  /** The content of the BackendRuntime that the service uses. */
  readonly backend?: RequestedBackend | undefined;
  /** All hosts, by name. */
  readonly hosts: ReadonlyMap<string, Host>;
  readonly benchmarks: BenchmarkTable;
  readonly flavor?: TakenFlavor | undefined;
  readonly blocked?: Blocked | undefined;
  readonly sealing: Sealing;
}

/** Nothing is sealed, unless its service says so. */
export const DIRECT: Sealing = { byDefault: "Direct", clients: [] };

/** What the plan needs of sealed transport. */
export interface Sealing {
  /** For services that do not set it. */
  readonly byDefault: Transport;
  /** Fingerprints of the clients that sealed replicas serve. Empty if they are not known. */
  readonly clients: readonly string[];
  /** The relays that are ready, and the port of this service on each; undefined without relays. */
  readonly relays?: { readonly addresses: readonly string[]; readonly port: number } | undefined;
}
