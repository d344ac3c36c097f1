/** The other hosts as their status describes them. Watched only while this host takes or gives something. */

import { getCondition } from "../../src/api/conditions.ts";
import type { Host } from "../../src/api/host.ts";
import { isAddressWithin } from "../../src/util/address-within.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { AssignedModel, ReadAssignedModels } from "./grants.ts";

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

/** What the API server is asked for. */
export interface PeerCluster {
  readonly watch: WatchHosts;
  /** Undefined where there is none; rejects where the API server does not answer. */
  readonly readHost: (name: string) => Promise<Host | undefined>;
  readonly readWanted: ReadAssignedModels;
}

export interface Directory extends Pick<PeerCluster, "readHost" | "readWanted"> {
  /** Once the cluster is connected. */
  readonly connect: (cluster: PeerCluster) => void;
  /** Watches from now on; the result ends it. */
  readonly use: () => () => void;
  /** False if the Hosts are not known within `patienceMs`. Only during use. */
  readonly known: (patienceMs: number, signal: AbortSignal) => Promise<boolean>;
  /** All but this host. */
  readonly peers: () => readonly PeerHost[];
  readonly withFingerprint: (fingerprint: string) => PeerHost | undefined;
  /** False if what is asked for does not come within `patienceMs`. Only during use. */
  readonly until: (isDone: () => boolean, patienceMs: number, signal: AbortSignal) => Promise<boolean>;
  readonly onChange: (listener: () => void) => () => void;
}

/** Another request within this time needs no new list. */
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

  async readWanted(name: string): Promise<readonly AssignedModel[]> {
    return (await this.#cluster?.readWanted(name)) ?? [];
  }

  use(): () => void {
    this.#users += 1;
    this.#begin();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#users -= 1;
      if (this.#users > 0 || this.#signal.aborted) return;
      this.cancelEnd();
      this.cancelEnd = this.#clock.after(LINGER_MS, () => this.#end());
    };
  }

  known(patienceMs: number, stop: AbortSignal): Promise<boolean> {
    return this.until(() => this.#isSynced, patienceMs, stop);
  }

  until(isDone: () => boolean, patienceMs: number, stop: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      if (isDone()) return resolve(true);
      if (stop.aborted) return resolve(false);
      const finish = (answer: boolean): void => {
        cancel();
        this.#listeners.delete(look);
        stop.removeEventListener("abort", leave);
        resolve(answer);
      };
      const look = (): void => {
        if (isDone()) finish(true);
      };
      const leave = (): void => finish(false);
      const cancel = this.#clock.after(patienceMs, leave);
      this.#listeners.add(look);
      stop.addEventListener("abort", leave, { once: true });
    });
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
        this.#tell();
      },
      onSynced: () => {
        this.#isSynced = !controller.signal.aborted;
        this.#tell();
      },
    });
  }

  #end(): void {
    this.#watching?.abort();
    this.#watching = undefined;
    this.#isSynced = false;
    this.#hosts.clear();
  }

  #tell(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}

/** Undefined for a host that gives nothing. What it says of its addresses counts only within what the operator allows. */
function peerOf(host: Host): PeerHost | undefined {
  const { spec, status } = host;
  const address = status?.addresses?.find((one) => isAddressWithin(one, spec.addresses ?? []));
  const { port, fingerprint } = status?.peer ?? {};
  if (fingerprint === undefined) return undefined;
  // It may still take: port 0 is a host that nothing can be taken from.
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
