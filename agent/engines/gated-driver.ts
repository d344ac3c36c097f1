/**
 * Puts an engine behind the gate: the gate listens on the replica's port at the registered address. An engine that is not
 * shared listens on the same port of loopback; an engine that binds all addresses in spite of that finds the port taken.
 */
import { basename } from "node:path";
import { checkGate, isGated, namedAdaptersOf } from "../../src/engines/registry.ts";
import { removeRun } from "../../src/supervise/run-directory.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { GateRoutes } from "../gate/gate-routes.ts";
import type { GateRoute, Protocol } from "../gate/routes.ts";
import type {
  Instance,
  InstanceContext,
  InstanceState,
  InstanceTarget,
  StopMode,
} from "../instances/instance.ts";
import type { EngineDriver, EngineLaunch, EngineTrace } from "./driver/engine.ts";

/** Time for the gate to close a route before the agent stops the route's engine. */
const CLOSE_ROUTE_MS = 1_000;
const LOOPBACK = "127.0.0.1";

/** The part of a route that is known before its engine runs; recorded in engine.json for the next agent. */
type RouteSeed = Pick<
  GateRoute,
  "service" | "namespace" | "listen" | "keyFiles" | "tls" | "engineVersion" | "adapters"
> & {
  /** The file with the key that the engine requires from the gate. */
  readonly engineKeyFile?: string;
};

/** The same driver; the gate serves those of its instances whose service or engine requires the gate. */
export function withGate(
  driver: EngineDriver,
  { routes, clock }: { readonly routes: GateRoutes; readonly clock: Clock },
): EngineDriver {
  const protocol: Protocol = driver.gate ?? "any";
  const gated = (place: InstanceContext, seed: RouteSeed, state: GateRoute["state"]) => {
    const id = basename(place.dir);
    let opened: Instance | undefined;
    const onChange = (): void => {
      if (opened?.state().at === "gone") void routes.remove(id);
      place.onChange();
    };
    const forget = (): void => {
      opened = undefined;
    };
    const serve = (inner: Instance): { instance: Instance; listening: Promise<void> } => {
      opened = inner;
      const { engineKeyFile, ...route } = seed;
      const { host, port, modelAlias: model = "", keyFile: daemonKeyFile } = inner.target;
      // With a shared daemon the gate sends the daemon's key, not the replica's.
      const target = { host, port, keyFile: daemonKeyFile ?? engineKeyFile };
      const hasExited = inner.state().at === "gone";
      return {
        instance: new GatedInstance(inner, { id, seed, routes, forget, clock }),
        listening: hasExited
          ? Promise.resolve()
          : routes.put({ id, protocol, state, ...route, target, model }),
      };
    };
    return { place: { ...place, onChange }, serve, forget };
  };
  return {
    ...driver,
    open: async (place, launch) => {
      checkGate(launch.template);
      if (!isGated(launch.template)) return driver.open(place, launch);
      // Recorded, so that an adopted engine keeps the routes of the version that it was opened with.
      const engineVersion = protocol === "any" ? undefined : (await driver.detect())?.version;
      const seed = seedOf(launch, engineVersion);
      const gate = gated(place, seed, "none");
      const record = { ...launch.record, route: seed };
      const inner = await driver.open(gate.place, { ...launch, address: LOOPBACK, record });
      const { instance, listening } = gate.serve(inner);
      await listening.catch((error: unknown) => {
        // The next agent must not adopt this engine.
        removeRun(place.dir);
        gate.forget();
        instance.killNow();
        throw error;
      });
      return instance;
    },
    adopt: async (place, trace) => {
      const seed = seedIn(trace);
      if (seed === undefined) return driver.adopt(place, trace);
      const { stop, readyAtMs } = trace.record;
      const proven = stop === undefined ? "passing" : "leaving";
      const gate = gated(place, seed, readyAtMs === undefined ? "none" : proven);
      const inner = await driver.adopt(gate.place, trace);
      if (inner === undefined) return undefined;
      const { instance, listening } = gate.serve(inner);
      // The engine runs without a route meanwhile; the gate retries its port every second.
      listening.catch((err: unknown) => place.log.error({ err }, "the adopted engine has no route yet"));
      return instance;
    },
  };
}

function seedOf(launch: EngineLaunch, engineVersion: string | undefined): RouteSeed {
  const { template, address, port, apiKeyFile: engineKeyFile, gateFiles } = launch;
  const listen = { address, port };
  const named = namedAdaptersOf(template);
  const adapters = named.length === 0 ? undefined : named;
  return {
    service: template.serviceName,
    namespace: String(launch.record.namespace),
    listen,
    ...gateFiles,
    engineKeyFile,
    engineVersion,
    adapters,
  };
}

function seedIn({ record: { route } }: EngineTrace): RouteSeed | undefined {
  return typeof route === "object" && route !== null ? (route as RouteSeed) : undefined;
}

interface InstanceRoute {
  readonly id: string;
  readonly seed: RouteSeed;
  readonly routes: GateRoutes;
  /** After this, the exit of the instance does not remove the route. */
  readonly forget: () => void;
  readonly clock: Clock;
}

class GatedInstance implements Instance {
  readonly handle: Instance["handle"];
  readonly footprintBytes = () => this.#inner.footprintBytes();
  readonly activity = () => this.#inner.activity();
  readonly restoreFiles = () => this.#inner.restoreFiles();
  readonly logTail = (bytes: number) => this.#inner.logTail(bytes);
  readonly inFlight = () => this.#route.routes.inFlight(this.#route.id);
  readonly admitClients = () => this.#route.routes.pass(this.#route.id, CLOSE_ROUTE_MS);
  readonly checkRoute = () => this.#route.routes.check(this.#route.id);
  readonly filesChanged = () => this.#route.routes.reload();
  /** From now on every response ends its connection, so that clients move on without a failed request. */
  readonly leave = () => this.#route.routes.leave(this.#route.id);
  readonly #inner: Instance;
  readonly #route: InstanceRoute;
  /** The request to the engine, sent once the gate has closed the route. */
  #stopMode: StopMode | undefined;
  #drained: Promise<void> = Promise.resolve();
  #stopByMs = Number.POSITIVE_INFINITY;

  constructor(inner: Instance, route: InstanceRoute) {
    this.#inner = inner;
    this.#route = route;
    this.handle = { ...inner.handle, route: route.seed };
  }

  get target(): InstanceTarget {
    return this.#inner.target;
  }

  get logPath(): string {
    return this.#inner.logPath;
  }

  state(): InstanceState {
    const state = this.#inner.state();
    const isUp = state.at === "starting" || state.at === "running";
    return isUp && this.#stopMode !== undefined && state.ending === undefined
      ? { ...state, ending: this.#stopMode }
      : state;
  }

  /** New requests are rejected before the model is unloaded: a request on its way would load the model again. */
  stopBy(deadlineMs: number): void {
    const { id, routes, clock } = this.#route;
    const isFirst = this.#stopMode === undefined;
    this.#stopMode ??= "stopping";
    this.#stopByMs = Math.min(this.#stopByMs, deadlineMs);
    const withinMs = Math.max(0, Math.min(CLOSE_ROUTE_MS, deadlineMs - clock.monotonicMs()));
    if (isFirst) this.#drained = routes.drain(id, withinMs);
    void this.#drained.then(() => this.#inner.stopBy(this.#stopByMs));
  }

  killNow(): void {
    const { id, routes } = this.#route;
    this.#stopMode = "killing";
    void routes.remove(id, CLOSE_ROUTE_MS).then(() => this.#inner.killNow());
  }

  close(): void {
    this.#route.forget();
    this.#inner.close();
  }
}
