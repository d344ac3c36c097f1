/** Limits the memory that request bodies take on a host whose memory the models need. */

const MIB = 1024 ** 2;

export interface GateBodyLimits {
  /** For all routes together. */
  readonly totalBytes: number;
  /** For one route. */
  readonly routeBytes: number;
  /** Guaranteed to each route, regardless of the other routes. */
  readonly ownBytes: number;
  /** A body that takes longer to arrive may be evicted for others. */
  readonly protectedMs: number;
}

const LIMITS: GateBodyLimits = {
  totalBytes: 256 * MIB,
  routeBytes: 128 * MIB,
  ownBytes: 8 * MIB,
  protectedMs: 10_000,
};

/** One request's share of the budget. */
export interface BodyShare {
  /** False if the budget has no room for this many more bytes. */
  readonly take: (bytes: number) => boolean;
  /** The body is being read from now on; `evict` ends the request in favor of others, and so releases its share. */
  readonly arriving: (evict: () => void) => void;
  /** The body is complete: the request is no longer evicted. */
  readonly arrived: () => void;
  readonly release: () => void;
}

interface Share {
  readonly route: string;
  readonly since: number;
  bytes: number;
  /** Set while the body arrives. */
  evict: (() => void) | undefined;
}

interface Usage {
  readonly total: number;
  readonly routes: ReadonlyMap<string, number>;
}

export class BodyBudget {
  readonly #limits: GateBodyLimits;
  readonly #now: () => number;
  /** In order of their start. */
  readonly #shares = new Set<Share>();
  readonly #routes = new Map<string, number>();
  /** Bytes of all bodies in memory. */
  bytes = 0;

  constructor(limits: GateBodyLimits = LIMITS, now = (): number => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  open(route: string): BodyShare {
    const share: Share = { route, since: this.#now(), bytes: 0, evict: undefined };
    this.#shares.add(share);
    return {
      take: (bytes) => this.#take(share, bytes),
      arriving: (evict) => {
        share.evict = evict;
      },
      arrived: () => {
        share.evict = undefined;
      },
      release: () => {
        this.#shares.delete(share);
        this.#add(share, -share.bytes);
      },
    };
  }

  #take(share: Share, bytes: number): boolean {
    for (const slow of this.#toEvict(share, bytes)) {
      slow.evict?.();
      // No body is evicted twice, even if the first attempt released nothing.
      slow.evict = undefined;
    }
    const usage = { total: this.bytes, routes: this.#routes };
    if (this.#exceededLimit(share.route, bytes, usage) !== undefined) return false;
    this.#add(share, bytes);
    return true;
  }

  /** The limit that this many more bytes would exceed. */
  #exceededLimit(route: string, bytes: number, { total, routes }: Usage): "route" | "total" | undefined {
    const { totalBytes, routeBytes, ownBytes } = this.#limits;
    const ofRoute = (routes.get(route) ?? 0) + bytes;
    if (ofRoute > routeBytes) return "route";
    return ofRoute > ownBytes && total + bytes > totalBytes ? "total" : undefined;
  }

  /** The slow bodies to evict for these bytes, the oldest first; none if that would not be enough. */
  #toEvict(share: Share, bytes: number): readonly Share[] {
    const evicted = new Set<Share>();
    const routes = new Map(this.#routes);
    let total = this.bytes;
    for (;;) {
      const limit = this.#exceededLimit(share.route, bytes, { total, routes });
      if (limit === undefined) return [...evicted];
      const slowest = this.#slowest(limit === "route" ? share.route : undefined, routes, evicted);
      if (slowest === undefined || slowest === share) return [];
      evicted.add(slowest);
      routes.set(slowest.route, (routes.get(slowest.route) ?? 0) - slowest.bytes);
      total -= slowest.bytes;
    }
  }

  /** The oldest evictable body of one route, or of all routes that use more than their guaranteed bytes. */
  #slowest(
    route: string | undefined,
    routes: ReadonlyMap<string, number>,
    evicted: ReadonlySet<Share>,
  ): Share | undefined {
    const before = this.#now() - this.#limits.protectedMs;
    return [...this.#shares].find((one) => {
      const isCandidate =
        route === undefined ? (routes.get(one.route) ?? 0) > this.#limits.ownBytes : one.route === route;
      const isEvictable = one.since <= before && one.evict !== undefined && one.bytes > 0;
      return isCandidate && isEvictable && !evicted.has(one);
    });
  }

  #add(share: Share, bytes: number): void {
    const ofRoute = (this.#routes.get(share.route) ?? 0) + bytes;
    share.bytes += bytes;
    this.bytes += bytes;
    if (ofRoute > 0) this.#routes.set(share.route, ofRoute);
    else this.#routes.delete(share.route);
  }
}
