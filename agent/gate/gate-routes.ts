/** The routes of this agent's replicas, and the gate that serves them: started with the first one, stopped with the last. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { RouteCounters } from "./counters.ts";
import { type Gate, type GatePorts, openGate, readRoutes } from "./gate.ts";
import { type GateRoute, listenKey, type PassState } from "./routes.ts";

/** For the last connections of a gate that has no route any more. */
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
  /** Resolves once the gate listens there. Rejects with `EnginePortTaken` or `GateUnavailable` where it does not. */
  readonly put: (route: GateRoute) => Promise<void>;
  /** Requests are passed on; resolves once the gate knows, after `withinMs` in any case. */
  readonly pass: (id: string, withinMs: number) => Promise<void>;
  readonly leave: (id: string) => void;
  /** Refuses what is new; resolves once the gate knows and nothing is in flight, after `withinMs` in any case. */
  readonly drain: (id: string, withinMs: number) => Promise<void>;
  /** Cuts what is in flight; resolves once the gate knows, after `withinMs` in any case. */
  readonly remove: (id: string, withinMs?: number) => Promise<void>;
  readonly inFlight: (id: string) => Promise<number | "unknown">;
  /** Why clients cannot use the route; undefined where they can. */
  readonly problem: (id: string) => Promise<string | undefined>;
  /** The gate reads keys and certificates again. */
  readonly reload: () => void;
  /** Of every route; none where the gate does not answer in time. */
  readonly read: (timeoutMs: number) => Promise<readonly RouteReading[]>;
  /** After all engines were adopted: until then a gate of an earlier agent keeps the routes that it has. */
  readonly begin: () => Promise<void>;
  /** Resolves once all changes have been handed over. */
  readonly settled: () => Promise<void>;
  readonly close: () => void;
}

export interface GateRoutesPorts extends GatePorts {
  /** Whether a replica that was not adopted may still have an engine: its route stays. */
  readonly mayRun: (id: string) => boolean;
}

export function createGateRoutes(ports: GateRoutesPorts): GateRoutes {
  return new Routes(ports);
}

class Routes implements GateRoutes {
  readonly #ports: GateRoutesPorts;
  readonly #routes = new Map<string, GateRoute>();
  /** Those that an earlier agent had, of replicas that were not adopted. */
  #earlier: readonly GateRoute[] = [];
  #gate: Gate | undefined;
  /** The one that is being adopted or upgraded. */
  #opening: Pick<Gate, "status" | "isHandingOver"> | undefined;
  /** The one before it is gone: opened sooner, a gate that is about to exit would be adopted. */
  #stopped: Promise<void> = Promise.resolve();
  #hasBegun = false;
  #isClosed = false;
  #isDue = false;
  #last: Promise<void> = Promise.resolve();

  constructor(ports: GateRoutesPorts) {
    this.#ports = ports;
  }

  async put(route: GateRoute): Promise<void> {
    this.#routes.set(route.id, route);
    this.#changed();
    await this.#last;
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
    await this.#within(withinMs, this.#last);
  }

  leave(id: string): void {
    this.#setState(id, "leaving");
  }

  drain(id: string, withinMs: number): Promise<void> {
    this.#setState(id, "draining");
    return this.#within(
      withinMs,
      this.#last.then(() => this.#gate?.drain(id)),
    );
  }

  async remove(id: string, withinMs = 0): Promise<void> {
    if (!this.#routes.delete(id)) return;
    this.#changed();
    await this.#within(withinMs, this.#last);
  }

  async inFlight(id: string): Promise<number | "unknown"> {
    return this.#gate === undefined ? "unknown" : this.#gate.inFlight(id);
  }

  async problem(id: string): Promise<string | undefined> {
    const gate = this.#gate ?? this.#opening;
    const status = await gate?.status();
    if (status === undefined) return "the gate does not answer";
    const route = status.routes[id];
    if (route === undefined) return status.fileProblem ?? "the gate does not have the route yet";
    if (route.isServing || (status.isLeaving && gate?.isHandingOver() === true)) return undefined;
    return status.isLeaving ? "the gate is stopping" : route.problems.join("; ");
  }

  reload(): void {
    this.#changed();
  }

  read(timeoutMs: number): Promise<readonly RouteReading[]> {
    const gate = this.#gate;
    if (gate === undefined) return Promise.resolve([]);
    return new Promise((resolve) => {
      const cancel = this.#ports.clock.after(timeoutMs, () => resolve([]));
      readAll(gate)
        .then(resolve, () => resolve([]))
        .finally(cancel);
    });
  }

  async begin(): Promise<void> {
    const before = await readRoutes(this.#ports.folder).catch(() => undefined);
    this.#earlier = before ?? [];
    this.#hasBegun = true;
    // Not awaited: an upgrade takes longer than an agent may be without its Lease.
    if (this.#routes.size > 0 || before?.length !== 0) this.#changed();
  }

  settled(): Promise<void> {
    return this.#last;
  }

  close(): void {
    this.#isClosed = true;
    this.#gate?.close();
  }

  #setState(id: string, state: PassState): void {
    const route = this.#routes.get(id);
    if (route === undefined) return;
    this.#routes.set(id, { ...route, state });
    this.#changed();
  }

  #changed(): void {
    if (!this.#hasBegun || this.#isDue || this.#isClosed) return;
    this.#isDue = true;
    this.#last = this.#last.then(() => this.#handOver());
  }

  async #handOver(): Promise<void> {
    const { clock, log, mayRun } = this.#ports;
    this.#isDue = false;
    const places = new Set([...this.#routes.values()].map(listenKey));
    this.#earlier = this.#earlier.filter(
      (route) => !this.#routes.has(route.id) && !places.has(listenKey(route)) && mayRun(route.id),
    );
    const wanted = [...this.#routes.values(), ...this.#earlier];
    try {
      await this.#stopped;
      if (this.#gate !== undefined) await this.#gate.set(wanted);
      else
        this.#gate = await openGate(this.#ports, wanted, (opening) => {
          this.#opening = opening;
        });
      if (wanted.length > 0) return;
      this.#stopped = this.#gate.stopBy(clock.monotonicMs() + STOP_MS);
      this.#gate = undefined;
    } catch (err) {
      log.error({ err, inMs: RETRY_MS }, "the gate does not take its routes; retrying");
      clock.after(RETRY_MS, () => this.#changed());
    }
  }

  #within(ms: number, work: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#ports.clock.after(ms, resolve);
      const done = (): void => {
        cancel();
        resolve();
      };
      work.then(done, done);
    });
  }
}

async function readAll(gate: Gate): Promise<readonly RouteReading[]> {
  const counted = Object.entries(await gate.metrics());
  const readings = counted.map(async ([id, counters]) => ({
    id,
    inFlight: await gate.inFlight(id),
    counters,
  }));
  return Promise.all(readings);
}
