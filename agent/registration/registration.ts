/** The host's objects in the cluster: Host, Lease and status. Waits for missing ones and reports each once. */

import { getCondition } from "../../src/api/conditions.ts";
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import { API_VERSION, MANAGER_AGENT, NAMESPACE_HOSTS } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import type { RecordEvent } from "../../src/kube/event/events.ts";
import type { EventInput } from "../../src/kube/event/series.ts";
import { type KeptLease, keepLease } from "../../src/kube/lease/lease.ts";
import type { ApiFailure, KubeClient, Reflector } from "../../src/kube/types.ts";
import type { WatchedReflector } from "../../src/kube/watch/catch-up.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { msToAlignedTime } from "../../src/util/shared-ticks.ts";
import { hostStatusBody, type ObservedHost, unknownHostBody } from "./host-status.ts";

export interface RegistrationOptions {
  readonly connection: KubeConnection;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly hostName: string;
  readonly instanceId: string;
  /** Addresses for a Host that the agent creates; read at creation, since the network may come up after the agent. */
  readonly create: (() => readonly string[]) | undefined;
  readonly observe: () => Promise<ObservedHost>;
  /** Name of this machine, for users who see two agents with one host name. */
  readonly machine: () => string;
  readonly record: RecordEvent;
  /** Called when the Host was read, changed or deleted. */
  readonly onHost: (host: Host | undefined) => void;
}

export interface RegistrationEvents {
  /** Called when this agent acquired the host name, or another agent holds it. */
  readonly onNameOurs: () => void;
  readonly onNameTaken: () => void;
  /** Called when the API server answers the Lease loop, with the time of its last failure, if any. */
  readonly onAnswered: (failedAtMs: number | undefined) => void;
}

export type HostProblem = { readonly code: string; readonly message: string };

export interface HostRegistration {
  /** Watches the Host and competes for its Lease until the signal. */
  readonly start: (events: RegistrationEvents) => void;
  readonly isNameOurs: () => boolean;
  /** The watch of the Host; undefined before the start. */
  readonly hosts: () => WatchedReflector | undefined;
  /** Problems that keep this host from being registered. */
  readonly problems: () => readonly HostProblem[];
  /** Writes the status soon if it changed. */
  readonly report: () => void;
  /** After a sleep: renews the Lease, rereads the Host and writes its status. */
  readonly wake: () => void;
}

const OBSERVE_MS = 5_000;
/** Without an observation for this long, the Host's status is out of date. */
const UNOBSERVED_MS = 30_000;
const SOON_MS = 100;
const STARTING = "Starting";
const CREATE_RETRY_MS = 5_000;
/** Half the timeout of other requests, so that the host keeps its Lease even if the network loses two requests. */
const LEASE_TIMEOUT_MS = 5_000;

export function createRegistration(options: RegistrationOptions): HostRegistration {
  return new Registrar(options);
}

class Registrar implements HostRegistration {
  readonly isNameOurs = () => this.#isOurs;
  readonly hosts = () => this.#hosts;
  readonly problems = () => [...this.#problems.values()];
  readonly report = () => this.#reportIn(SOON_MS);
  readonly #problems = new Map<string, HostProblem>([
    ["registered", { code: STARTING, message: "the Host object has not been read yet" }],
    ["lease", { code: STARTING, message: "this agent does not hold the Lease of the host name yet" }],
  ]);
  #isOurs = false;
  readonly #options: RegistrationOptions;
  #host: Host | undefined;
  /** The agent that holds the name, until the Host has an Event about it. */
  #unreportedHolder: string | undefined;
  /** Reason of the Ready condition that was last logged and recorded. */
  #lastReadyReason = "AgentReady";
  #wasSeen = false;
  /** When the last observation succeeded; initially, when this agent started. */
  #observedAtMs: number;
  #isReporting = false;
  #cancelReport: (() => void) | undefined;
  #cancelCreate: (() => void) | undefined;
  #lease: KeptLease | undefined;
  #hosts: Reflector<Host> | undefined;

  constructor(options: RegistrationOptions) {
    this.#options = options;
    this.#observedAtMs = options.clock.monotonicMs();
  }

  start({ onNameOurs, onNameTaken, onAnswered }: RegistrationEvents): void {
    const { connection, clock, log, signal, hostName, instanceId } = this.#options;
    const shared = { clock, log, signal };
    this.#hosts = startReflector<Host>({
      ...shared,
      connection,
      kind: HOSTS,
      fieldSelector: `metadata.name=${hostName}`,
      onChange: (_, host) => this.#onHost(host),
      onSynced: () => {
        this.#clearProblem("host");
        if (this.#host === undefined) this.#onHost(undefined);
      },
      onFailure: (failure) => this.#setProblem("host", explainFailure(failure, { account: hostName })),
    });
    this.#lease = keepLease({
      ...shared,
      client: createClient(connection, { timeoutMs: LEASE_TIMEOUT_MS }),
      name: hostName,
      namespace: NAMESPACE_HOSTS,
      holder: `${hostName}_${instanceId}`,
      onResponse: onAnswered,
      onRenewed: () => this.#onHeld(onNameOurs),
      onTaken: (holder) => {
        this.#onTaken(holder);
        onNameTaken();
      },
      onFailure: (failure) => this.#setProblem("lease", leaseErrorOf(failure, hostName)),
    });
    signal.addEventListener("abort", () => this.#stop(), { once: true });
  }

  wake(): void {
    this.#lease?.renewNow();
    this.#hosts?.relist();
    this.#reportIn(SOON_MS);
  }

  /** Replaces a report that is already scheduled. */
  #reportIn(delayMs: number): void {
    const { clock, signal } = this.#options;
    if (signal.aborted || this.#host === undefined) return;
    this.#cancelReport?.();
    this.#cancelReport = clock.after(delayMs, () => void this.#report());
  }

  #onHost(host: Host | undefined): void {
    const isNew = host !== undefined && this.#host?.metadata.uid !== host.metadata.uid;
    this.#host = host;
    this.#options.onHost(host);
    if (host === undefined) {
      this.#onAbsent();
      return;
    }
    this.#wasSeen = true;
    this.#clearProblem("registered");
    this.#recordHolder();
    if (isNew) this.#reportIn(0);
  }

  #onAbsent(): void {
    const { create, hostName } = this.#options;
    // A Host that is deleted while the agent runs was deleted on purpose.
    if (create !== undefined && !this.#wasSeen) {
      this.#register(create());
      return;
    }
    this.#setProblem(
      "registered",
      new MetalbridgeError("HostNotRegistered", `there is no Host ${hostName}`, {
        summary: "register it",
        command: `metalbridge host add ${hostName} --address <address>`,
      }),
    );
  }

  /** A Host without addresses would forbid every address, and the agent never changes what is registered. */
  #register(addresses: readonly string[]): void {
    if (addresses.length > 0) return void this.#create(addresses);
    const why =
      "the Host is not created yet: no address is configured, and there is no route to the API server";
    this.#setProblem("registered", new MetalbridgeError("AddressUnknown", why));
    this.#registerLater();
  }

  #registerLater(): void {
    this.#cancelCreate?.();
    this.#cancelCreate = this.#options.clock.after(CREATE_RETRY_MS, () => {
      if (this.#host === undefined) this.#onAbsent();
    });
  }

  async #create(addresses: readonly string[]): Promise<void> {
    const { client, hostName, signal, log } = this.#options;
    const made = await client.create(HOSTS, {
      apiVersion: "metalbridge.dev/v1alpha1",
      kind: "Host",
      metadata: { name: hostName },
      spec: { addresses: [...addresses] },
    } as unknown as Host);
    if (made.ok) return log.info({ host: hostName, addresses }, "host registered");
    if (made.error.kind === "alreadyExists" || signal.aborted) return;
    this.#setProblem("registered", explainFailure(made.error, { account: hostName }));
    this.#registerLater();
  }

  #onHeld(onNameOurs: () => void): void {
    this.#clearProblem("lease");
    if (this.#isOurs) return;
    this.#isOurs = true;
    onNameOurs();
    this.#reportIn(0);
  }

  #onTaken(holder: string): void {
    const { hostName } = this.#options;
    this.#setProblem(
      "lease",
      new MetalbridgeError("HostNameTaken", `the host name ${hostName} is held by ${holder}`),
    );
    this.#isOurs = false;
    this.#unreportedHolder = holder;
    this.#recordHolder();
  }

  /** Records the Event on the Host, where the operator of the other machine sees it too. This agent must not write anything else. */
  #recordHolder(): void {
    const holder = this.#unreportedHolder;
    if (holder === undefined || this.#host === undefined) return;
    this.#unreportedHolder = undefined;
    const serves = this.#host.status?.addresses?.join(", ") ?? "";
    const note =
      `A second agent, on ${this.#options.machine()}, was started with this host name, which ${holder} holds` +
      `${serves === "" ? "" : ` (serving on ${serves})`}. Stop one of them, or start one with another --host-name.`;
    this.#record({ type: "Warning", reason: "HostNameTaken", action: "Register", note });
  }

  #record(event: EventInput): void {
    const { name, uid } = this.#host?.metadata ?? { name: this.#options.hostName };
    const regarding = { apiVersion: API_VERSION, kind: HOSTS.kind, name };
    this.#options.record(uid === undefined ? regarding : { ...regarding, uid }, event);
  }

  /** Logs a change of the Ready condition and records it as an Event. */
  #reportReady({ status }: Host): void {
    const ready = getCondition(status?.conditions, "Ready");
    if (ready === undefined || ready.reason === STARTING || ready.reason === this.#lastReadyReason) return;
    this.#lastReadyReason = ready.reason;
    const { reason, message } = ready;
    const isReady = ready.status === "True";
    if (isReady) this.#options.log.info({ code: reason }, message);
    else this.#options.log.warn({ code: reason }, message);
    this.#record({ type: isReady ? "Normal" : "Warning", reason, action: "Serve", note: message });
  }

  async #report(): Promise<void> {
    if (this.#isReporting) return this.#reportIn(SOON_MS);
    this.#isReporting = true;
    try {
      await this.#write();
    } catch (err) {
      this.#options.log.error({ err }, "cannot build the Host status");
    } finally {
      this.#isReporting = false;
      this.#reportIn(msToAlignedTime(this.#options.clock.monotonicMs(), OBSERVE_MS));
    }
  }

  async #write(): Promise<void> {
    const { client, clock } = this.#options;
    const seen = await this.#observe();
    const host = this.#host;
    if (seen === undefined || host === undefined || !this.#isOurs) return;
    const nowIso = new Date(clock.nowMs()).toISOString();
    const body =
      seen instanceof MetalbridgeError
        ? unknownHostBody(host, seen, nowIso)
        : hostStatusBody(host, seen, nowIso);
    this.#reportReady(body);
    const applied = await client.apply(HOSTS, body, {
      manager: MANAGER_AGENT,
      subresource: "status",
      current: host,
    });
    if (!applied.ok)
      return this.#setProblem("status", explainFailure(applied.error, { account: this.#options.hostName }));
    this.#clearProblem("status");
    if (applied.value.sent && this.#host?.metadata.uid === applied.value.object.metadata.uid)
      this.#host = applied.value.object;
  }

  /** A failed observation is retried with the next report. Returns the error if none has succeeded for long. */
  async #observe(): Promise<ObservedHost | MetalbridgeError | undefined> {
    const { clock, log, observe } = this.#options;
    try {
      const seen = await observe();
      this.#observedAtMs = clock.monotonicMs();
      this.#clearProblem("observation");
      return seen;
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      const error = new MetalbridgeError("ObservationFailed", why, undefined, { cause });
      if (clock.monotonicMs() - this.#observedAtMs < UNOBSERVED_MS) {
        log.warn({ err: error }, "cannot observe this machine");
        return undefined;
      }
      this.#setProblem("observation", error);
      return error;
    }
  }

  #stop(): void {
    this.#cancelReport?.();
    this.#cancelCreate?.();
  }

  #setProblem(about: string, error: MetalbridgeError): void {
    const known = this.#problems.get(about);
    const message = describeError(error);
    this.#problems.set(about, { code: error.code, message });
    if (known?.code !== error.code) this.#options.log.warn({ code: error.code, about }, message);
  }

  #clearProblem(about: string): void {
    const known = this.#problems.get(about);
    this.#problems.delete(about);
    if (known !== undefined && known.code !== STARTING) {
      this.#options.log.info({ about, code: known.code }, "recovered");
    }
  }
}

/** A missing Lease means that the namespace is missing: Metalbridge is not installed in the cluster. */
function leaseErrorOf(failure: ApiFailure, account: string): MetalbridgeError {
  if (failure.kind !== "notFound") return explainFailure(failure, { account });
  return new MetalbridgeError("CrdsNotInstalled", `the namespace ${NAMESPACE_HOSTS} is missing`);
}
