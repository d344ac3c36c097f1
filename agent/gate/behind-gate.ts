/** An engine behind the gate: the replica's port is the gate's, which passes only its model and counts its requests. */
import { basename } from "node:path";
import type { EngineDriver, EngineLaunch, EngineTrace } from "../engines/engine.ts";
import type { Instance, InstanceTarget, Place } from "../instances/instance.ts";
import type { GateRoutes } from "./gate-routes.ts";
import type { GateRoute, Protocol } from "./routes.ts";

/** What of a route is known before its engine runs; kept in engine.json for the next agent. */
type RouteSeed = Pick<GateRoute, "service" | "listen" | "keyFiles">;

/** The same driver, with each of its instances served by the gate. */
export function behindGate(driver: EngineDriver, protocol: Protocol, routes: GateRoutes): EngineDriver {
  const gated = (place: Place, seed: RouteSeed, state: GateRoute["state"]) => {
    const id = basename(place.dir);
    let opened: Instance | undefined;
    const onChange = (): void => {
      if (opened?.state().at === "gone") routes.remove(id);
      place.onChange();
    };
    const open = async (inner: Instance): Promise<Instance> => {
      opened = inner;
      if (inner.state().at !== "gone")
        await routes.put({ id, protocol, state, ...seed, ...routeTarget(inner.target) });
      return new GatedInstance(inner, id, seed, routes);
    };
    return { place: { ...place, onChange }, open };
  };
  return {
    ...driver,
    open: async (place, launch) => {
      const seed = seedOf(launch);
      const gate = gated(place, seed, "passing");
      const record = { ...launch.record, route: seed };
      const inner = await driver.open(gate.place, { ...launch, record });
      return gate.open(inner).catch((error: unknown) => {
        inner.endNow();
        throw error;
      });
    },
    adopt: async (place, trace) => {
      const seed = seedIn(trace);
      if (seed === undefined) return driver.adopt(place, trace);
      const gate = gated(place, seed, trace.record.stop === undefined ? "passing" : "leaving");
      const inner = await driver.adopt(gate.place, trace);
      return inner === undefined ? undefined : gate.open(inner);
    },
  };
}

function routeTarget({ host, port, modelAlias }: InstanceTarget): Pick<GateRoute, "target" | "model"> {
  return { target: { host, port }, model: modelAlias ?? "" };
}

function seedOf({ template, address, port, apiKeyFile }: EngineLaunch): RouteSeed {
  return {
    service: template.serviceName,
    listen: { address, port },
    ...(apiKeyFile === undefined ? {} : { keyFiles: [apiKeyFile] }),
  };
}

function seedIn({ record }: EngineTrace): RouteSeed | undefined {
  const { route } = record;
  return typeof route === "object" && route !== null ? (route as RouteSeed) : undefined;
}

class GatedInstance implements Instance {
  readonly #inner: Instance;
  readonly #id: string;
  readonly #routes: GateRoutes;
  readonly handle: Instance["handle"];

  constructor(inner: Instance, id: string, seed: RouteSeed, routes: GateRoutes) {
    this.#inner = inner;
    this.#id = id;
    this.#routes = routes;
    this.handle = { ...inner.handle, route: seed };
  }

  get target(): InstanceTarget {
    return this.#inner.target;
  }

  get logPath(): string {
    return this.#inner.logPath;
  }

  state() {
    return this.#inner.state();
  }

  inFlight(): Promise<number | "unknown"> {
    return this.#routes.inFlight(this.#id);
  }

  /** Every response ends its connection from now on, so that clients move on without a failed request. */
  leave(): void {
    this.#routes.leave(this.#id);
  }

  stopBy(deadlineMs: number): void {
    this.#routes.remove(this.#id);
    this.#inner.stopBy(deadlineMs);
  }

  endNow(): void {
    this.#routes.remove(this.#id);
    this.#inner.endNow();
  }

  footprintBytes() {
    return this.#inner.footprintBytes();
  }

  activity() {
    return this.#inner.activity();
  }

  restoreFiles() {
    return this.#inner.restoreFiles();
  }

  logTail(bytes: number) {
    return this.#inner.logTail(bytes);
  }

  close(): void {
    this.#inner.close();
  }
}
