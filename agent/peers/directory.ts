/** The other hosts, according to their status. Watched only while this host downloads from or serves peers. */

import { getCondition } from "../../src/api/conditions.ts";
import type { Host } from "../../src/api/host.ts";
import { isAddressWithin } from "../../src/util/ip-address.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { AssignedModel, ReadAssignedModels } from "./grants.ts";
import { waitForChange } from "./wait-for-change.ts";

export interface PeerHost {
  readonly name: string;
  readonly address: string;
  readonly port: number;
  readonly fingerprint: string;
  readonly host: Host;
}

/** Starts to watch all Hosts; ends with the signal. */
export type WatchHosts = (watch: {
  readonly signal: AbortSignal;
  readonly onChange: (host: string, now: Host | undefined) => void;
  readonly onSynced: () => void;
}) => void;

/** The requests to the API server. */
export interface PeerCluster {
  readonly watch: WatchHosts;
  /** Undefined if the Host does not exist; rejects if the API server does not answer. */
  readonly readHost: (name: string) => Promise<Host | undefined>;
  readonly readAssigned: ReadAssignedModels;
}

export interface Directory extends Pick<PeerCluster, "readHost" | "readAssigned"> {
  /** Called once the cluster is connected. */
  readonly connect: (cluster: PeerCluster) => void;
  /** Watches from now on; the result ends the use. */
  readonly use: () => () => void;
  /** False if the list of Hosts does not arrive within `timeoutMs`. Only during use. */
  readonly untilSynced: (timeoutMs: number, signal: AbortSignal) => Promise<boolean>;
  /** All hosts but this one. */
  readonly peers: () => readonly PeerHost[];
  readonly withFingerprint: (fingerprint: string) => PeerHost | undefined;
  /** False if the condition is not met within `timeoutMs`. Only during use. */
  readonly until: (isMet: () => boolean, timeoutMs: number, signal: AbortSignal) => Promise<boolean>;
  readonly onChange: (listener: () => void) => () => void;
}

/** The watch continues for this long after its last use, so that another use needs no new list. */
const LINGER_MS = 60_000;

export function createDirectory(self: string, clock: Clock, signal: AbortSignal): Directory {
  const directory = new WatchedDirectory(self, clock, signal);
  signal.addEventListener("abort", () => directory.cancelEnd(), { once: true });
  return directory;
}

class WatchedDirectory implements Directory {
  cancelEnd = (): void => undefined;
  readonly #self: string;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #hosts = new Map<string, PeerHost>();
  readonly #listeners = new Set<() => void>();
  #cluster: PeerCluster | undefined;
  #watching: AbortController | undefined;
  #isSynced = false;
  #users = 0;

  constructor(self: string, clock: Clock, signal: AbortSignal) {
    this.#self = self;
    this.#clock = clock;
    this.#signal = signal;
  }

  connect(cluster: PeerCluster): void {
    this.#cluster = cluster;
    if (this.#users > 0) this.#begin();
  }

  async readHost(name: string): Promise<Host | undefined> {
    return this.#cluster?.readHost(name);
  }

  async readAssigned(name: string): Promise<readonly AssignedModel[]> {
    return (await this.#cluster?.readAssigned(name)) ?? [];
  }

  use(): () => void {
    this.#users += 1;
    this.#begin();
    let hasEnded = false;
    return () => {
      if (hasEnded) return;
      hasEnded = true;
      this.#users -= 1;
      if (this.#users > 0 || this.#signal.aborted) return;
      this.cancelEnd();
      this.cancelEnd = this.#clock.after(LINGER_MS, () => this.#end());
    };
  }

  untilSynced(timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    return this.until(() => this.#isSynced, timeoutMs, signal);
  }

  until(isMet: () => boolean, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    const limits = { clock: this.#clock, timeoutMs, signal };
    return waitForChange(isMet, (listener) => this.onChange(listener), limits);
  }

  peers(): readonly PeerHost[] {
    return [...this.#hosts.values()];
  }

  withFingerprint(fingerprint: string): PeerHost | undefined {
    return this.peers().find((peer) => peer.fingerprint === fingerprint);
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #begin(): void {
    this.cancelEnd();
    if (this.#watching !== undefined || this.#cluster === undefined || this.#signal.aborted) return;
    const controller = new AbortController();
    this.#watching = controller;
    this.#cluster.watch({
      signal: AbortSignal.any([this.#signal, controller.signal]),
      onChange: (name, host) => {
        if (controller.signal.aborted) return;
        const peer = host === undefined || name === this.#self ? undefined : peerOf(host);
        if (peer === undefined) this.#hosts.delete(name);
        else this.#hosts.set(name, peer);
        this.#notify();
      },
      onSynced: () => {
        this.#isSynced = !controller.signal.aborted;
        this.#notify();
      },
    });
  }

  #end(): void {
    this.#watching?.abort();
    this.#watching = undefined;
    this.#isSynced = false;
    this.#hosts.clear();
  }

  #notify(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}

/** Undefined for a host that takes no part in peer downloads. Its addresses count only within those that the operator allows. */
function peerOf(host: Host): PeerHost | undefined {
  const { spec, status } = host;
  const address = status?.addresses?.find((one) => isAddressWithin(one, spec.addresses ?? []));
  const { port, fingerprint } = status?.peer ?? {};
  if (fingerprint === undefined) return undefined;
  // Port 0: the host cannot serve peers, but may download from them.
  const isReachable =
    address !== undefined && getCondition(status?.conditions, "Reachable")?.status !== "False";
  return {
    name: host.metadata.name,
    address: address ?? "",
    port: isReachable ? (port ?? 0) : 0,
    fingerprint,
    host,
  };
}
