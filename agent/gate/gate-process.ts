/** The gate as a process: it serves the routes of its file until it is stopped or has handed over. */
import { readFileSync } from "node:fs";
import type { Server as NetServer } from "node:net";
import type { Log } from "../../src/util/ports.ts";
import { BodyBudget } from "./body/budget.ts";
import { addCounters, createCounters, type RouteCounters } from "./counters.ts";
import { RouteServer } from "./route-server.ts";
import { type GateRoute, listenKey, parseRoutes, type RouteStatus } from "./routes.ts";

export interface GateStatus {
  /** The version of the agent that started the gate. */
  readonly release: string;
  readonly pid: number;
  /** The gate has handed its sockets over, or is being stopped, and finishes the requests in flight. */
  readonly isLeaving: boolean;
  /** Why the file could not be loaded; the previous routes stay active. */
  readonly fileProblem?: string;
  readonly routes: Readonly<Record<string, RouteStatus>>;
}

interface Served {
  route: GateRoute;
  readonly server: RouteServer;
}

export class GateProcess {
  readonly #file: string;
  readonly #release: string;
  readonly #log: Log;
  readonly #routes = new Map<string, Served>();
  readonly #counters = new Map<string, RouteCounters>();
  readonly #bodies = new BodyBudget();
  readonly #conditions = new Set<() => void>();
  #isLeaving = false;
  #fileProblem: string | undefined;

  constructor(options: { readonly file: string; readonly release: string; readonly log: Log }) {
    this.#file = options.file;
    this.#release = options.release;
    this.#log = options.log;
  }

  /** Applies the routes of the file; `listen` then listens on new ones. */
  reload(): void {
    try {
      const routes = parseRoutes(readFileSync(this.#file, "utf8"));
      this.#endAllBut(routes);
      for (const route of routes) this.#serve(route);
      this.#fileProblem = undefined;
    } catch (error) {
      this.#fileProblem = error instanceof Error ? error.message : String(error);
      this.#log.error(
        { err: this.#fileProblem },
        "the routes cannot be read; the previous routes stay active",
      );
    }
    this.#checkConditions();
  }

  /** Listens on every route that has no socket yet. */
  async listen(): Promise<void> {
    await Promise.all([...this.#routes.values()].map(({ server }) => server.listen()));
  }

  listenKeys(): readonly string[] {
    return [...this.#routes.values()].map(({ route }) => listenKey(route));
  }

  listening(key: string): NetServer | undefined {
    return this.#find(key)?.listening;
  }

  take(key: string, server: NetServer): void {
    this.#find(key)?.take(server);
  }

  status(): GateStatus {
    return {
      release: this.#release,
      pid: process.pid,
      isLeaving: this.#isLeaving,
      fileProblem: this.#fileProblem,
      routes: Object.fromEntries([...this.#routes].map(([id, { server }]) => [id, server.status()])),
    };
  }

  counters(): Readonly<Record<string, RouteCounters>> {
    return Object.fromEntries(this.#counters);
  }

  addCounters(id: string, more: RouteCounters): void {
    addCounters(this.#countersOf(id), more);
  }

  /** Resolves once no request is in flight on the route, or the route does not exist. */
  drained(id: string): Promise<void> {
    return this.#until(() => (this.#routes.get(id)?.server.status().inFlight ?? 0) === 0);
  }

  /**
   * Accepts no more connections. `atOnce`: closes idle connections, and resolves once no request is in flight; else
   * connections end with their next response, and this resolves once none is open.
   */
  leave(atOnce: boolean): Promise<void> {
    this.#isLeaving = true;
    const servers = [...this.#routes.values()].map(({ server }) => server);
    for (const server of servers) server.leave(atOnce);
    const count = atOnce ? "inFlight" : "connections";
    return this.#until(() => servers.every((server) => server.status()[count] === 0));
  }

  #endAllBut(routes: readonly GateRoute[]): void {
    for (const [id, { route, server }] of this.#routes) {
      if (routes.some((next) => next.id === id && isSameListener(next, route))) continue;
      this.#routes.delete(id);
      server.end();
    }
    for (const id of this.#counters.keys())
      if (!routes.some((route) => route.id === id)) this.#counters.delete(id);
  }

  #serve(route: GateRoute): void {
    const served = this.#routes.get(route.id);
    if (served !== undefined) {
      served.route = route;
      served.server.update(route);
    } else if (!this.#isLeaving) {
      const server = new RouteServer(route, {
        log: this.#log.child({ route: route.id }),
        counters: this.#countersOf(route.id),
        bodies: this.#bodies,
        onEnd: () => this.#checkConditions(),
      });
      this.#routes.set(route.id, { route, server });
    }
  }

  #countersOf(id: string): RouteCounters {
    const found = this.#counters.get(id) ?? createCounters();
    this.#counters.set(id, found);
    return found;
  }

  #find(key: string): RouteServer | undefined {
    return [...this.#routes.values()].find(({ route }) => listenKey(route) === key)?.server;
  }

  #until(isTrue: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const check = (): void => {
        if (!isTrue()) return;
        this.#conditions.delete(check);
        resolve();
      };
      this.#conditions.add(check);
      check();
    });
  }

  #checkConditions(): void {
    for (const check of this.#conditions) check();
  }
}

/** False if the route needs a new listener. */
function isSameListener(a: GateRoute, b: GateRoute): boolean {
  return (
    listenKey(a) === listenKey(b) &&
    a.service === b.service &&
    (a.tls === undefined) === (b.tls === undefined) &&
    a.tls?.clientCAFile === b.tls?.clientCAFile &&
    a.tls?.clientFingerprintsFile === b.tls?.clientFingerprintsFile &&
    JSON.stringify(a.limits) === JSON.stringify(b.limits)
  );
}
