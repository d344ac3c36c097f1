/**
 * An engine behind the gate: the replica's port on the registered address is the gate's. An engine of its own listens at the
 * same port on loopback alone; one that takes all addresses in spite of that finds the port taken.
 */
import { basename } from "node:path";
import { checkGate, isGated } from "../../src/engines/registry.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { EngineDriver, EngineLaunch, EngineTrace } from "../engines/engine.ts";
import type {
  StopMode,
  Instance,
  InstanceContext,
  InstanceState,
  InstanceTarget,
} from "../instances/instance.ts";
import { removeEngineFile } from "../instances/run-files/run-directory.ts";
import type { GateRoutes } from "./gate-routes.ts";
import type { GateRoute, Protocol } from "./routes.ts";

/** For the gate to learn that a route refuses or ends, before its engine does. */
const REFUSE_MS = 1_000;
const LOOPBACK = "127.0.0.1";

/** What of a route is known before its engine runs; kept in engine.json for the next agent. */
type RouteSeed = Pick<GateRoute, "service" | "listen" | "keyFiles" | "tls" | "engineVersion"> & {
  /** Holds the key that the engine asks the gate for. */
  readonly engineKeyFile?: string;
};

/** The same driver, with those of its instances served by the gate whose service or engine needs it. */
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
      const isGone = inner.state().at === "gone";
      const { engineKeyFile, ...wish } = seed;
      const route = { id, protocol, state, ...wish, ...routeTarget(inner.target, engineKeyFile) };
      return {
        instance: new GatedInstance(inner, { id, seed, routes, forget, clock }),
        listening: isGone ? Promise.resolve() : routes.put(route),
      };
    };
    return { place: { ...place, onChange }, serve, forget };
  };
  return {
    ...driver,
    open: async (place, launch) => {
      checkGate(launch.template);
      if (!isGated(launch.template)) return driver.open(place, launch);
      // Of the program that serves: an engine that was adopted keeps the routes that it was opened with.
      const engineVersion = protocol === "any" ? undefined : (await driver.detect())?.version;
      const seed = { ...seedOf(launch), engineVersion };
      const gate = gated(place, seed, "none");
      const record = { ...launch.record, route: seed };
      const inner = await driver.open(gate.place, { ...launch, address: LOOPBACK, record });
      const { instance, listening } = gate.serve(inner);
      await listening.catch((error: unknown) => {
        // Nothing of this start may be adopted.
        removeEngineFile(place.dir);
        gate.forget();
        instance.endNow();
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
      // It runs all the same; the gate tries its port again every second.
      listening.catch((err: unknown) => place.log.error({ err }, "the adopted engine has no route yet"));
      return instance;
    },
  };
}

/** A shared daemon's key comes before the replica's own. */
function routeTarget(
  { host, port, modelAlias, keyFile: daemonKeyFile }: InstanceTarget,
  engineKeyFile: string | undefined,
): Pick<GateRoute, "target" | "model"> {
  const keyFile = daemonKeyFile ?? engineKeyFile;
  const target = { host, port, keyFile };
  return { target, model: modelAlias ?? "" };
}

function seedOf({ template, address, port, apiKeyFile, gateFiles }: EngineLaunch): RouteSeed {
  return {
    service: template.serviceName,
    listen: { address, port },
    ...gateFiles,
    engineKeyFile: apiKeyFile,
  };
}

function seedIn({ record }: EngineTrace): RouteSeed | undefined {
  const { route } = record;
  return typeof route === "object" && route !== null ? (route as RouteSeed) : undefined;
}

interface Behind {
  readonly id: string;
  readonly seed: RouteSeed;
  readonly routes: GateRoutes;
  /** Its changes end no route any more. */
  readonly forget: () => void;
  readonly clock: Clock;
}

class GatedInstance implements Instance {
  readonly #inner: Instance;
  readonly #behind: Behind;
  readonly handle: Instance["handle"];
  /** What the engine is asked once the gate knows. */
  #asked: StopMode | undefined;
  #refused: Promise<void> = Promise.resolve();
  #stopByMs = Number.POSITIVE_INFINITY;

  constructor(inner: Instance, behind: Behind) {
    this.#inner = inner;
    this.#behind = behind;
    this.handle = { ...inner.handle, route: behind.seed };
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
    return isUp && this.#asked !== undefined && state.ending === undefined
      ? { ...state, ending: this.#asked }
      : state;
  }

  inFlight(): Promise<number | "unknown"> {
    return this.#behind.routes.inFlight(this.#behind.id);
  }

  letIn(): Promise<void> {
    return this.#behind.routes.pass(this.#behind.id, REFUSE_MS);
  }

  routeProblem(): Promise<string | undefined> {
    return this.#behind.routes.problem(this.#behind.id);
  }

  filesChanged(): void {
    this.#behind.routes.reload();
  }

  /** Every response ends its connection from now on, so that clients move on without a failed request. */
  leave(): void {
    this.#behind.routes.leave(this.#behind.id);
  }

  /** What is new is refused before the model is unloaded: a request on its way would load it again. */
  stopBy(deadlineMs: number): void {
    const { id, routes, clock } = this.#behind;
    const isFirst = this.#asked === undefined;
    this.#asked ??= "stopping";
    this.#stopByMs = Math.min(this.#stopByMs, deadlineMs);
    const withinMs = Math.max(0, Math.min(REFUSE_MS, deadlineMs - clock.monotonicMs()));
    if (isFirst) this.#refused = routes.drain(id, withinMs);
    void this.#refused.then(() => this.#inner.stopBy(this.#stopByMs));
  }

  endNow(): void {
    const { id, routes } = this.#behind;
    this.#asked = "killing";
    void routes.remove(id, REFUSE_MS).then(() => this.#inner.endNow());
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
    this.#behind.forget();
    this.#inner.close();
  }
}
