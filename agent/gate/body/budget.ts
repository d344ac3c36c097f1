/** Memory that the bodies of requests may take: what they take is missing beside the models. */

const MIB = 1024 ** 2;

export interface BodyLimits {
  /** All routes together. */
  readonly totalBytes: number;
  /** One route. */
  readonly routeBytes: number;
  /** Each route may have these, whatever the others hold. */
  readonly ownBytes: number;
  /** A body that has been arriving for longer makes room for others. */
  readonly protectedMs: number;
}

const LIMITS: BodyLimits = {
  totalBytes: 256 * MIB,
  routeBytes: 128 * MIB,
  ownBytes: 8 * MIB,
  protectedMs: 10_000,
};

/** One request's part of it. */
export interface BodyShare {
  /** False where there is no room for so many bytes more. */
  readonly take: (bytes: number) => boolean;
  /** The body is complete: it is no longer ended for others. */
  readonly arrived: () => void;
  readonly release: () => void;
}

interface Holding {
  readonly route: string;
  readonly since: number;
  readonly makeRoom: () => void;
  bytes: number;
  isArriving: boolean;
}

export class BodyBudget {
  readonly #limits: BodyLimits;
  readonly #now: () => number;
  /** In the order in which they began. */
  readonly #holdings = new Set<Holding>();
  readonly #routes = new Map<string, number>();
  /** All bodies that are held. */
  bytes = 0;

  constructor(limits: BodyLimits = LIMITS, now = (): number => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  /** `makeRoom` ends the request, and so releases its share. */
  open(route: string, makeRoom: () => void): BodyShare {
    const holding: Holding = { route, since: this.#now(), makeRoom, bytes: 0, isArriving: true };
    this.#holdings.add(holding);
    return {
      take: (bytes) => this.#take(holding, bytes),
      arrived: () => {
        holding.isArriving = false;
      },
      release: () => {
        this.#holdings.delete(holding);
        this.#add(holding, -holding.bytes);
      },
    };
  }

  #take(holding: Holding, bytes: number): boolean {
    for (let what = this.#short(holding.route, bytes); what !== undefined; ) {
      const slowest = this.#slowest(what === "route" ? holding.route : undefined);
      if (slowest === undefined || slowest === holding) return false;
      slowest.makeRoom();
      // Whatever it did: no body is asked twice.
      slowest.isArriving = false;
      what = this.#short(holding.route, bytes);
    }
    this.#add(holding, bytes);
    return true;
  }

  /** Whose limit is in the way. */
  #short(route: string, bytes: number): "route" | "total" | undefined {
    const { totalBytes, routeBytes, ownBytes } = this.#limits;
    const ofRoute = (this.#routes.get(route) ?? 0) + bytes;
    if (ofRoute > routeBytes) return "route";
    return ofRoute > ownBytes && this.bytes + bytes > totalBytes ? "total" : undefined;
  }

  #slowest(route: string | undefined): Holding | undefined {
    const before = this.#now() - this.#limits.protectedMs;
    for (const one of this.#holdings) {
      const isOf = route === undefined || one.route === route;
      if (one.since <= before && one.isArriving && one.bytes > 0 && isOf) return one;
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
