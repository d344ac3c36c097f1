/** What the agent wants of the gate: the whole set of routes, as one file. A gate reads it when it starts and when it is asked to. */

/**
 * passing: requests go to the target. leaving: they still do, and every response ends its connection, so that clients move
 * on without a failed request. draining: what is in flight is finished, all else is refused, idle connections are closed.
 * none: there is nothing to pass to (the model is loading, or its daemon is down). The last two answer 503 with Retry-After.
 */
export type PassState = "passing" | "leaving" | "draining" | "none";

/**
 * openai: the inference routes of OpenAI's API. ollama: those of Ollama's own API as well. any: every path and method, with
 * no look at bodies, for an engine of the service's own.
 */
export type Protocol = "openai" | "ollama" | "any";

export interface GateRoute {
  /** The replica's uid. */
  readonly id: string;
  /** The name by which clients may ask for the model. */
  readonly service: string;
  readonly listen: { readonly address: string; readonly port: number };
  readonly target: {
    readonly host: string;
    readonly port: number;
    /** Holds the key that the daemon asks for. */
    readonly keyFile?: string;
  };
  /** The name that the daemon has for the model. */
  readonly model: string;
  readonly protocol: Protocol;
  /** Decides which inference routes it has; absent where it is not known. */
  readonly engineVersion?: string | undefined;
  readonly state: PassState;
  /** Files with one accepted key per line, the old and the new one during a rotation. Absent: no key is asked for. */
  readonly keyFiles?: readonly string[];
  /** PEM files. Whether a route has TLS does not change while it exists; what the files hold may. */
  readonly tls?: { readonly certFile: string; readonly keyFile: string };
  readonly limits?: Partial<GateLimits>;
}

export interface GateLimits {
  /** Of a request's body, which is held in memory until it is complete. */
  readonly bodyBytes: number;
  /** Until a request's head is complete. */
  readonly headMs: number;
  /** Until a request is complete, its body included. */
  readonly requestMs: number;
  /** For which an idle connection is kept: longer than clients keep theirs, so that it is they who close. */
  readonly idleMs: number;
  /** For which a client may leave what it was sent unread. */
  readonly unreadMs: number;
  /** At once, on this route's port. */
  readonly connections: number;
  /** Whose responses are not over, at once. */
  readonly requests: number;
  /** Of these on one connection: a client that sends on without reading is cut off. */
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
  /** Requests whose head was read and whose response is not over. */
  readonly inFlight: number;
  readonly connections: number;
  readonly listening: boolean;
  /** It listens, and has the keys and the certificate that it needs. */
  readonly isServing: boolean;
  /** Why it cannot do what the file asks for. */
  readonly problems: readonly string[];
}

const STATES: readonly string[] = ["passing", "leaving", "draining", "none"] satisfies PassState[];

/** Throws where the text is no set of routes: the gate then keeps those it has. */
export function parseRoutes(text: string): readonly GateRoute[] {
  const { routes } = JSON.parse(text) as { readonly routes?: unknown };
  if (!Array.isArray(routes)) throw new Error("the file has no list of routes");
  const places = new Set<string>();
  for (const route of routes as readonly GateRoute[]) {
    if (typeof route.id !== "string" || !STATES.includes(route.state))
      throw new Error(`a route has no id, or the unknown state ${route.state}`);
    for (const place of [`id ${route.id}`, listenKey(route)]) {
      if (places.has(place)) throw new Error(`two routes have the same ${place}`);
      places.add(place);
    }
  }
  return routes;
}

export function renderRoutes(routes: readonly GateRoute[]): string {
  return `${JSON.stringify({ routes }, undefined, 1)}\n`;
}

/** Names a listening socket, so that the next gate finds it among those that it is handed. */
export function listenKey({ listen }: GateRoute): string {
  return `address ${listen.address} port ${listen.port}`;
}
