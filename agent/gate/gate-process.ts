/** The gate as a process: its routes after the file, and the way out. */
import { readFileSync } from "node:fs";
import type { Server as NetServer } from "node:net";
import type { Log } from "../../src/util/ports.ts";
import { BodyBudget } from "./body/budget.ts";
import { addCounters, createCounters, type RouteCounters } from "./counters.ts";
import { RouteServer } from "./route-server.ts";
import { type GateRoute, listenKey, parseRoutes, type RouteStatus } from "./routes.ts";

export interface GateStatus {
  /** What the agent that started it called its version. */
  readonly release: string;
  readonly pid: number;
  /** It has handed its sockets over, or is being stopped, and finishes what it has. */
  readonly isLeaving: boolean;
  /** Why the file could not be taken; the routes are those of before. */
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
  readonly #waiting = new Set<() => void>();
  #isLeaving = false;
  #fileProblem: string | undefined;

  constructor(options: { readonly file: string; readonly release: string; readonly log: Log }) {
    this.#file = options.file;
    this.#release = options.release;
    this.#log = options.log;
  }

  /** Takes what the file says; listening on new routes is another step. */
  reload(): void {
    try {
      const wanted = parseRoutes(readFileSync(this.#file, "utf8"));
      this.#endAllBut(wanted);
      for (const route of wanted) this.#serve(route);
      this.#fileProblem = undefined;
    } catch (error) {
      this.#fileProblem = error instanceof Error ? error.message : String(error);
      this.#log.error({ err: this.#fileProblem }, "the routes cannot be read; those of before stay");
    }
    this.#look();
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

  /** Resolves once nothing is in flight on the route, or there is none of that id. */
  drained(id: string): Promise<void> {
    return this.#until(() => (this.#routes.get(id)?.server.status().inFlight ?? 0) === 0);
  }

  /** Accepts no more; resolves when nothing is left. `atOnce` ends idle connections, else they end with their next response. */
  leave(atOnce: boolean): Promise<void> {
    this.#isLeaving = true;
    const servers = [...this.#routes.values()].map(({ server }) => server);
    for (const server of servers) server.leave(atOnce);
    const left = atOnce ? "inFlight" : "connections";
    return this.#until(() => servers.every((server) => server.status()[left] === 0));
  }

  #endAllBut(wanted: readonly GateRoute[]): void {
    for (const [id, { route, server }] of this.#routes) {
      if (wanted.some((next) => next.id === id && isSamePlace(next, route))) continue;
      this.#routes.delete(id);
      server.end();
    }
    for (const id of this.#counters.keys())
      if (!wanted.some((route) => route.id === id)) this.#counters.delete(id);
  }

  #serve(route: GateRoute): void {
    const known = this.#routes.get(route.id);
    if (known !== undefined) {
      known.route = route;
      known.server.update(route);
    } else if (!this.#isLeaving) {
      const server = new RouteServer(route, {
        log: this.#log.child({ route: route.id }),
        counters: this.#countersOf(route.id),
        bodies: this.#bodies,
        onLess: () => this.#look(),
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
      const look = (): void => {
        if (!isTrue()) return;
        this.#waiting.delete(look);
        resolve();
      };
      this.#waiting.add(look);
      look();
    });
  }

  #look(): void {
    for (const look of this.#waiting) look();
  }
}

/** What a listener cannot change. */
function isSamePlace(a: GateRoute, b: GateRoute): boolean {
  return (
    listenKey(a) === listenKey(b) &&
    a.service === b.service &&
    (a.tls === undefined) === (b.tls === undefined) &&
    JSON.stringify(a.limits) === JSON.stringify(b.limits)
  );
}
