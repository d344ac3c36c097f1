/** The running agent's shared state: each part sets its own findings, and all parts read the conclusions. */
import type { MetalbridgeError } from "../src/api/errors.ts";
import { parseQuantity } from "../src/api/fields/quantity.ts";
import { type Host, hostSchema } from "../src/api/host.ts";
import { hostBudget } from "../src/capacity/placement/budget.ts";
import { type AddressAnswer, type AddressesUp, chooseAddress } from "./host/addresses.ts";
import { hostProblemOf, type ObservedHost } from "./registration/host-status.ts";
import type { MachineReadings } from "./registration/observe-host.ts";
import type { HostProblem } from "./registration/registration.ts";

export interface ClusterSession {
  readonly isNameOurs: () => boolean;
  readonly isSynced: () => boolean;
  readonly watchAgeMs: () => number | undefined;
  readonly problems: () => readonly HostProblem[];
  /** Writes the Host's status soon if it changed. */
  readonly report: () => void;
}

type ClusterState =
  | { readonly at: "connecting"; readonly problem: MetalbridgeError | undefined }
  | { readonly at: "connected"; readonly session: ClusterSession };

type Credential = NonNullable<ObservedHost["credential"]>;

export class AgentState {
  readonly #configured: readonly string[];
  readonly #addressesUp: AddressesUp;
  #host: Host | undefined;
  #routed: string | undefined;
  #machine: MachineReadings | "unread" | "unreadable" = "unread";
  #credential: Credential | undefined;
  #cluster: ClusterState = { at: "connecting", problem: undefined };

  /** `host` is the last known Host, which applies until the Host is read again. */
  constructor(configured: readonly string[], addressesUp: AddressesUp, host: Host | undefined) {
    this.#configured = configured;
    this.#addressesUp = addressesUp;
    this.#host = host;
  }

  setHost(host: Host | undefined): void {
    this.#host = host;
  }

  /** Sets the local address of the route to the API server. The last address is kept while there is no route. */
  setRoute(address: string | undefined): void {
    this.#routed = address ?? this.#routed;
  }

  setReadings(machine: MachineReadings | "unreadable"): void {
    this.#machine = machine;
  }

  setCredential(credential: Credential): void {
    this.#credential = credential;
  }

  /** Undefined once the kubeconfig could be loaded. */
  setConnectProblem(problem: MetalbridgeError | undefined): void {
    this.#cluster = { at: "connecting", problem };
  }

  connected(session: ClusterSession): void {
    this.#cluster = { at: "connected", session };
  }

  /** Publishes a change of the Host's status. Does nothing before the first connection. */
  report(): void {
    this.session()?.report();
  }

  session(): ClusterSession | undefined {
    return this.#cluster.at === "connected" ? this.#cluster.session : undefined;
  }

  isSynced(): boolean {
    return this.session()?.isSynced() === true;
  }

  host(): Host | undefined {
    return this.#host;
  }

  routed(): string | undefined {
    return this.#routed;
  }

  credential(): Credential | undefined {
    return this.#credential;
  }

  /** Undefined before the first observation. */
  machine(): MachineReadings | undefined {
    return typeof this.#machine === "string" ? undefined : this.#machine;
  }

  /** The current address of engines; `inUse` are the addresses that running engines listen on. */
  address(inUse: readonly string[]): AddressAnswer {
    const allowed = this.#host?.spec.addresses;
    const question = { configured: this.#configured, allowed, routed: this.#routed, inUse };
    return chooseAddress(question, this.#addressesUp.now());
  }

  /** Uses the same calculation as placement, with this machine's own readings. Undefined while readings fail. */
  memoryBudget(): number | undefined {
    const machine = this.machine();
    if (machine === undefined) return undefined;
    const { memory, gpuBudgetBytes } = machine;
    const budget = hostBudget({
      spec: this.#host?.spec ?? hostSchema.parse({ metadata: { name: "unknown" } }).spec,
      status: { memory: { totalBytes: memory.totalBytes, gpuBudgetBytes } },
    });
    return budget.known ? budget.bytes : undefined;
  }

  isMachineUnread(): boolean {
    return this.#machine === "unread";
  }

  /** The operator's disk quota. */
  quotaBytes(): number | undefined {
    const quota = this.#host?.spec.disk?.quota;
    return quota === undefined ? undefined : parseQuantity(quota);
  }

  /** Why the agent is not ready, with the most fundamental problem first. */
  problems(address: AddressAnswer): readonly HostProblem[] {
    if (this.#cluster.at === "connecting") {
      const { problem } = this.#cluster;
      return problem === undefined
        ? [{ code: "Starting", message: "not connected to the API server yet" }]
        : [{ code: problem.code, message: problem.message }];
    }
    const { session } = this.#cluster;
    const problems = session.problems();
    if (problems.length > 0) return problems;
    const runtimes = this.machine()?.runtimes;
    const problem =
      this.#host === undefined || runtimes === undefined
        ? undefined
        : hostProblemOf(this.#host, { address, runtimes });
    if (problem !== undefined) return [problem];
    if (session.isSynced()) return [];
    return [{ code: "Starting", message: "the replicas have not been listed yet" }];
  }
}
