/** Memory that the bodies of requests may take: what they take is missing beside the models. */

const MIB = 1024 ** 2;

export interface GateBodyLimits {
  /** All routes together. */
  readonly totalBytes: number;
  /** One route. */
  readonly routeBytes: number;
  /** Each route may have these, whatever the others hold. */
  readonly ownBytes: number;
  /** A body that has been arriving for longer makes room for others. */
  readonly protectedMs: number;
}

const LIMITS: GateBodyLimits = {
  totalBytes: 256 * MIB,
  routeBytes: 128 * MIB,
  ownBytes: 8 * MIB,
  protectedMs: 10_000,
};

/** One request's part of it. */
export interface BodyShare {
  /** False where there is no room for so many bytes more. */
  readonly take: (bytes: number) => boolean;
  /** The body is read from now on; `makeRoom` ends the request for others, and so releases its share. */
  readonly arriving: (makeRoom: () => void) => void;
  /** The body is complete: it is no longer ended for others. */
  readonly arrived: () => void;
  readonly release: () => void;
}

interface Holding {
  readonly route: string;
  readonly since: number;
  bytes: number;
  /** While its body arrives. */
  makeRoom: (() => void) | undefined;
}

interface Held {
  readonly total: number;
  readonly routes: ReadonlyMap<string, number>;
}

export class BodyBudget {
  readonly #limits: GateBodyLimits;
  readonly #now: () => number;
  /** In the order in which they began. */
  readonly #holdings = new Set<Holding>();
  readonly #routes = new Map<string, number>();
  /** All bodies that are held. */
  bytes = 0;

  constructor(limits: GateBodyLimits = LIMITS, now = (): number => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  open(route: string): BodyShare {
    const holding: Holding = { route, since: this.#now(), bytes: 0, makeRoom: undefined };
    this.#holdings.add(holding);
    return {
      take: (bytes) => this.#take(holding, bytes),
      arriving: (makeRoom) => {
        holding.makeRoom = makeRoom;
      },
      arrived: () => {
        holding.makeRoom = undefined;
      },
      release: () => {
        this.#holdings.delete(holding);
        this.#add(holding, -holding.bytes);
      },
    };
  }

  #take(holding: Holding, bytes: number): boolean {
    for (const slow of this.#inTheWay(holding, bytes)) {
      slow.makeRoom?.();
      // Whatever it did: no body is asked twice.
      slow.makeRoom = undefined;
    }
    if (this.#short(holding.route, bytes, this.#held()) !== undefined) return false;
    this.#add(holding, bytes);
    return true;
  }

  #held(): Held {
    return { total: this.bytes, routes: this.#routes };
  }

  /** Whose limit is in the way. */
  #short(route: string, bytes: number, { total, routes }: Held): "route" | "total" | undefined {
    const { totalBytes, routeBytes, ownBytes } = this.#limits;
    const ofRoute = (routes.get(route) ?? 0) + bytes;
    if (ofRoute > routeBytes) return "route";
    return ofRoute > ownBytes && total + bytes > totalBytes ? "total" : undefined;
  }

  /** The slow bodies that have to end for these bytes, the oldest first; none where that would not be enough. */
  #inTheWay(holding: Holding, bytes: number): readonly Holding[] {
    const ends = new Set<Holding>();
    const routes = new Map(this.#routes);
    let total = this.bytes;
    for (;;) {
      const what = this.#short(holding.route, bytes, { total, routes });
      if (what === undefined) return [...ends];
      const slowest = this.#slowest(what === "route" ? holding.route : undefined, routes, ends);
      if (slowest === undefined || slowest === holding) return [];
      ends.add(slowest);
      routes.set(slowest.route, (routes.get(slowest.route) ?? 0) - slowest.bytes);
      total -= slowest.bytes;
    }
  }

  /** Of one route, or of all that hold more than what each has of its own. */
  #slowest(
    route: string | undefined,
    routes: ReadonlyMap<string, number>,
    ends: ReadonlySet<Holding>,
  ): Holding | undefined {
    const before = this.#now() - this.#limits.protectedMs;
    for (const one of this.#holdings) {
      const isIn =
        route === undefined ? (routes.get(one.route) ?? 0) > this.#limits.ownBytes : one.route === route;
      if (isIn && one.since <= before && one.makeRoom !== undefined && one.bytes > 0 && !ends.has(one))
        return one;
    }
    return undefined;
  }

  #add(holding: Holding, bytes: number): void {
    const ofRoute = (this.#routes.get(holding.route) ?? 0) + bytes;
    holding.bytes += bytes;
    this.bytes += bytes;
    if (ofRoute > 0) this.#routes.set(holding.route, ofRoute);
    else this.#routes.delete(holding.route);
  }
}
