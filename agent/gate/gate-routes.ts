/** The routes of this agent's replicas, and the gate that serves them: started with the first route, stopped with the last. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { RouteCheck } from "../instances/instance.ts";
import type { RouteCounters } from "./counters.ts";
import { type Gate, type GatePorts, openGate, readRoutes } from "./gate.ts";
import { type GateRoute, listenKey, type PassState } from "./routes.ts";

/** Time for the last connections of a gate that has no routes left. */
const STOP_MS = 5_000;
const RETRY_MS = 1_000;

/** For metrics. */
export interface RouteReading {
  /** The replica's uid. */
  readonly id: string;
  readonly inFlight: number | "unknown";
  readonly counters: RouteCounters;
}

export interface GateRoutes {
  /** Resolves once the gate listens for the route. Rejects with `EnginePortTaken` or `GateUnavailable` if it does not. */
  readonly put: (route: GateRoute) => Promise<void>;
  /** Passes requests to the engine; resolves once the gate has applied this, at the latest after `withinMs`. */
  readonly pass: (id: string, withinMs: number) => Promise<void>;
  readonly leave: (id: string) => void;
  /** Rejects new requests; resolves once the gate has applied this and no request is in flight, at the latest after `withinMs`. */
  readonly drain: (id: string, withinMs: number) => Promise<void>;
  /** Cuts requests in flight; resolves once the gate has applied this, at the latest after `withinMs`. */
  readonly remove: (id: string, withinMs?: number) => Promise<void>;
  readonly inFlight: (id: string) => Promise<number | "unknown">;
  readonly check: (id: string) => Promise<RouteCheck>;
  /** Makes the gate read keys and certificates again. */
  readonly reload: () => void;
  /** Reads every route; returns none if the gate does not answer in time. */
  readonly read: (timeoutMs: number) => Promise<readonly RouteReading[]>;
  /** Called after all engines were adopted: until then a gate of an earlier agent keeps its routes. */
  readonly begin: () => Promise<void>;
  /** Resolves once the gate has all changes. */
  readonly settled: () => Promise<void>;
  readonly close: () => void;
}

export interface GateRoutesPorts extends GatePorts {
  /** True if a replica that was not adopted may still have an engine: then its route stays. */
  readonly mayRun: (id: string) => boolean;
}

export function createGateRoutes(ports: GateRoutesPorts): GateRoutes {
  return new Routes(ports);
}

class Routes implements GateRoutes {
  readonly #ports: GateRoutesPorts;
  readonly #routes = new Map<string, GateRoute>();
  /** Routes of an earlier agent, for replicas that were not adopted. */
  #earlier: readonly GateRoute[] = [];
  #gate: Gate | undefined;
  /** The gate that is being adopted or upgraded. */
  #opening: Pick<Gate, "status" | "isHandingOver"> | undefined;
  /** Resolves once the previous gate has exited: opened sooner, a gate that is about to exit would be adopted. */
  #stopped: Promise<void> = Promise.resolve();
  #hasBegun = false;
  #isClosed = false;
  #isSyncQueued = false;
  #lastSync: Promise<void> = Promise.resolve();

  constructor(ports: GateRoutesPorts) {
    this.#ports = ports;
  }

  async put(route: GateRoute): Promise<void> {
    this.#routes.set(route.id, route);
    this.#queueSync();
    await this.#lastSync;
    if (!this.#hasBegun) return;
    const status = await this.#gate?.status();
    const served = status?.routes[route.id];
    if (served?.listening === true) return;
    const { address, port } = route.listen;
    const why = status?.fileProblem ?? served?.problems.join("; ") ?? "the gate does not run";
    const code = served === undefined ? "GateUnavailable" : "EnginePortTaken";
    throw new MetalbridgeError(code, `the gate does not listen on ${address} port ${port}: ${why}`);
  }

  async pass(id: string, withinMs: number): Promise<void> {
    const state = this.#routes.get(id)?.state;
    if (state !== "none" && state !== "leaving") return;
    this.#setState(id, "passing");
    await this.#within(withinMs, this.#lastSync);
  }

  leave(id: string): void {
    this.#setState(id, "leaving");
  }

  drain(id: string, withinMs: number): Promise<void> {
    this.#setState(id, "draining");
    const drained = this.#lastSync.then(() => this.#gate?.drain(id));
    return this.#within(withinMs, drained);
  }

  async remove(id: string, withinMs = 0): Promise<void> {
    if (!this.#routes.delete(id)) return;
    this.#queueSync();
    await this.#within(withinMs, this.#lastSync);
  }

  async inFlight(id: string): Promise<number | "unknown"> {
    return this.#gate === undefined ? "unknown" : this.#gate.inFlight(id);
  }

  async check(id: string): Promise<RouteCheck> {
    const gate = this.#gate ?? this.#opening;
    const status = await gate?.status();
    if (status === undefined) return { problem: "the gate does not answer" };
    const route = status.routes[id];
    if (route === undefined) return { problem: status.fileProblem ?? "the gate does not have the route yet" };
    const { inFlight, streams } = route;
    const load = { inFlight, firstTokens: streams.count, firstTokenSeconds: streams.firstByteSeconds };
    if (route.isServing || (status.isLeaving && gate?.isHandingOver() === true)) return { load };
    return { problem: status.isLeaving ? "the gate is stopping" : route.problems.join("; "), load };
  }

  reload(): void {
    // Without a route no gate runs.
    if (this.#routes.size + this.#earlier.length > 0) this.#queueSync();
  }

  async read(timeoutMs: number): Promise<readonly RouteReading[]> {
    if (this.#gate === undefined) return [];
    return (await this.#within(timeoutMs, readAll(this.#gate))) ?? [];
  }

  async begin(): Promise<void> {
    const before = await readRoutes(this.#ports.folder).catch(() => undefined);
    this.#earlier = before ?? [];
    this.#hasBegun = true;
    // Not awaited: an upgrade takes longer than an agent may be without its Lease.
    if (this.#routes.size > 0 || before?.length !== 0) this.#queueSync();
  }

  settled(): Promise<void> {
    return this.#lastSync;
  }

  close(): void {
    this.#isClosed = true;
    this.#gate?.close();
  }

  #setState(id: string, state: PassState): void {
    const route = this.#routes.get(id);
    if (route === undefined) return;
    this.#routes.set(id, { ...route, state });
    this.#queueSync();
  }

  #queueSync(): void {
    if (!this.#hasBegun || this.#isSyncQueued || this.#isClosed) return;
    this.#isSyncQueued = true;
    this.#lastSync = this.#lastSync.then(() => this.#sync());
  }

  async #sync(): Promise<void> {
    const { clock, log, mayRun } = this.#ports;
    this.#isSyncQueued = false;
    const listenKeys = new Set([...this.#routes.values()].map(listenKey));
    this.#earlier = this.#earlier.filter(
      (route) => !this.#routes.has(route.id) && !listenKeys.has(listenKey(route)) && mayRun(route.id),
    );
    const routes = [...this.#routes.values(), ...this.#earlier];
    try {
      await this.#stopped;
      if (this.#gate !== undefined) await this.#gate.set(routes);
      else
        this.#gate = await openGate(this.#ports, routes, (opening) => {
          this.#opening = opening;
        });
      if (routes.length > 0) return;
      this.#stopped = this.#gate.stopBy(clock.monotonicMs() + STOP_MS);
      this.#gate = undefined;
    } catch (err) {
      log.error({ err, inMs: RETRY_MS }, "the gate cannot apply its routes; retrying");
      clock.after(RETRY_MS, () => this.#queueSync());
    }
  }

  /** Resolves with undefined if the work fails or takes longer. */
  #within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve) => {
      const cancel = this.#ports.clock.after(ms, () => resolve(undefined));
      work.then(resolve, () => resolve(undefined)).finally(cancel);
    });
  }
}

async function readAll(gate: Gate): Promise<readonly RouteReading[]> {
  const metrics = Object.entries(await gate.metrics());
  return Promise.all(
    metrics.map(async ([id, counters]) => ({ id, inFlight: await gate.inFlight(id), counters })),
  );
}
