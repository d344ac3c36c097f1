/** An engine behind the gate: the replica's port is the gate's, which passes only its model and counts its requests. */
import { basename } from "node:path";
import type { Clock } from "../../src/ports.ts";
import type { EngineDriver, EngineLaunch, EngineTrace } from "../engines/engine.ts";
import type { Ending, Instance, InstanceState, InstanceTarget, Place } from "../instances/instance.ts";
import { removeEngineFile } from "../replicas/state/engine-record.ts";
import type { GateRoutes } from "./gate-routes.ts";
import type { GateRoute, Protocol } from "./routes.ts";

/** For the gate to learn that a route refuses or ends, before its engine does. */
const REFUSE_MS = 1_000;

/** What of a route is known before its engine runs; kept in engine.json for the next agent. */
type RouteSeed = Pick<GateRoute, "service" | "listen" | "keyFiles">;

/** The same driver, with each of its instances served by the gate. */
export function behindGate(
  driver: EngineDriver,
  protocol: Protocol,
  { routes, clock }: { readonly routes: GateRoutes; readonly clock: Clock },
): EngineDriver {
  const gated = (place: Place, seed: RouteSeed, state: GateRoute["state"]) => {
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
      const route = { id, protocol, state, ...seed, ...routeTarget(inner.target) };
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
      const seed = seedOf(launch);
      const gate = gated(place, seed, "passing");
      const record = { ...launch.record, route: seed };
      const inner = await driver.open(gate.place, { ...launch, record });
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
      const gate = gated(place, seed, trace.record.stop === undefined ? "passing" : "leaving");
      const inner = await driver.adopt(gate.place, trace);
      if (inner === undefined) return undefined;
      const { instance, listening } = gate.serve(inner);
      // It runs all the same; the gate tries its port again every second.
      listening.catch((err: unknown) => place.log.error({ err }, "the adopted engine has no route yet"));
      return instance;
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
  #asked: Ending | undefined;
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
