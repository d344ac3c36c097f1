/** The routes that the agent configures in the gate, all in one file. A gate reads the file at its start and on request. */
import { keyOf } from "../../src/api/names.ts";
import type { RouteCounters } from "./counters.ts";

/**
 * passing: requests go to the target. leaving: they still do, and every response ends its connection, so that clients move
 * on without a failed request. draining: requests in flight finish, new ones are rejected, idle connections are closed.
 * none: there is no target (the model is loading, or its daemon is down). The last two answer 503 with Retry-After.
 */
export type PassState = "passing" | "leaving" | "draining" | "none";

/**
 * openai: the inference routes of OpenAI's API. ollama: also those of Ollama's own API. any: every path and method, and
 * bodies are not inspected; for an engine that is not shared.
 */
export type Protocol = "openai" | "ollama" | "any";

export interface GateRoute {
  /** The replica's uid. */
  readonly id: string;
  /** The model's name in clients' requests. */
  readonly service: string;
  /** Namespace of the service. */
  readonly namespace: string;
  readonly listen: { readonly address: string; readonly port: number };
  readonly target: {
    readonly host: string;
    readonly port: number;
    /** The file with the key that the daemon requires. */
    readonly keyFile?: string;
  };
  /** The daemon's name for the model. */
  readonly model: string;
  readonly protocol: Protocol;
  /** Adapters by name, in the order of their identifiers in the engine. Only with protocol any. */
  readonly adapters?: readonly string[] | undefined;
  /** Decides which inference routes the engine has; absent if unknown. */
  readonly engineVersion?: string | undefined;
  readonly state: PassState;
  /** Files with one accepted key per line, the old and the new one during a rotation. Absent: no key is required. */
  readonly keyFiles?: readonly string[];
  /** PEM files, whose content may change. A route gains and loses none of them while it exists. */
  readonly tls?: {
    readonly certFile: string;
    readonly keyFile: string;
    /** CA certificates, of which one must have signed the certificate of a client. Absent: clients need none. */
    readonly clientCAFile?: string | undefined;
    /**
     * Sealed: one SHA-256 fingerprint per line, of the certificates of clients. TLS 1.3 only; every other connection is closed
     * before a request is read. Absent: certificates are not compared.
     */
    readonly clientFingerprintsFile?: string | undefined;
  };
  readonly limits?: Partial<GateLimits>;
}

export interface GateLimits {
  /** Maximum size of a request's body, which stays in memory until it is complete. */
  readonly bodyBytes: number;
  /** Maximum time until a request's head is complete. */
  readonly headMs: number;
  /** Maximum time until a request is complete, its body included. */
  readonly requestMs: number;
  /** Maximum idle time of a connection: longer than that of clients, so that the client closes it. */
  readonly idleMs: number;
  /** Maximum time that a client may leave a response unread. */
  readonly unreadMs: number;
  /** Maximum number of open connections on this route's port. */
  readonly connections: number;
  /** Maximum number of requests in flight. */
  readonly requests: number;
  /** Maximum number of requests in flight on one connection: a client that sends more without reading is disconnected. */
  readonly pipelined: number;
}

export const DEFAULT_LIMITS: GateLimits = {
  bodyBytes: 64 * 1024 ** 2,
  headMs: 10_000,
  requestMs: 300_000,
  idleMs: 120_000,
  unreadMs: 120_000,
  connections: 1_024,
  requests: 1_024,
  pipelined: 8,
};

export interface RouteStatus {
  readonly state: PassState;
  /** Requests whose head was read and whose response has not finished. */
  readonly inFlight: number;
  readonly streams: RouteCounters["streams"];
  readonly connections: number;
  readonly listening: boolean;
  /** The route listens, and has the keys and the certificate that it needs. */
  readonly isServing: boolean;
  /** Why the route cannot do what the file specifies. */
  readonly problems: readonly string[];
}

const STATES: readonly string[] = ["passing", "leaving", "draining", "none"] satisfies PassState[];

/** Throws if the text is not a set of routes; the gate then keeps its current routes. */
export function parseRoutes(text: string): readonly GateRoute[] {
  const { routes } = JSON.parse(text) as { readonly routes?: unknown };
  if (!Array.isArray(routes)) throw new Error("the file has no list of routes");
  const keys = new Set<string>();
  for (const route of routes as readonly GateRoute[]) {
    if (typeof route.id !== "string" || !STATES.includes(route.state))
      throw new Error(`a route has no id, or the unknown state ${route.state}`);
    for (const key of [`id ${route.id}`, listenKey(route)]) {
      if (keys.has(key)) throw new Error(`two routes have the same ${key}`);
      keys.add(key);
    }
  }
  return routes;
}

export function renderRoutes(routes: readonly GateRoute[]): string {
  return `${JSON.stringify({ routes }, undefined, 1)}\n`;
}

/** False if a gateway has chosen another service, which had the route's address before. `chosen`: the header of its request. */
export function isRouteFor(
  { service, namespace }: Pick<GateRoute, "service" | "namespace">,
  chosen: string | readonly string[] | undefined,
): boolean {
  return chosen === undefined || chosen === keyOf({ namespace, name: service });
}

/** Identifies a listening socket, so that the next gate finds it among those that it receives. */
export function listenKey({ listen }: GateRoute): string {
  return `address ${listen.address} port ${listen.port}`;
}
