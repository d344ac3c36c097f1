/** The routes of this agent's replicas, and the gate that serves them: started with the first one, stopped with the last. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { RouteCounters } from "./counters.ts";
import { type Gate, type GatePorts, openGate, readRoutes } from "./gate.ts";
import type { GateRoute } from "./routes.ts";

/** For the last connections of a gate that has no route any more. */
const STOP_MS = 5_000;

/** For metrics. */
export interface RouteReading {
  /** The replica's uid. */
  readonly id: string;
  readonly inFlight: number | "unknown";
  readonly counters: RouteCounters;
}

export interface GateRoutes {
  /** Resolves once the gate listens there. Rejects with `EnginePortTaken` where it cannot. */
  readonly put: (route: GateRoute) => Promise<void>;
  readonly leave: (id: string) => void;
  readonly remove: (id: string) => void;
  readonly inFlight: (id: string) => Promise<number | "unknown">;
  /** Of every route; none where the gate does not answer in time. */
  readonly read: (timeoutMs: number) => Promise<readonly RouteReading[]>;
  /** After all engines were adopted: until then a gate of an earlier agent keeps the routes that it has. */
  readonly begin: () => Promise<void>;
  /** Resolves once all changes have been handed over. */
  readonly settled: () => Promise<void>;
  readonly close: () => void;
}

export function createGateRoutes(ports: GatePorts): GateRoutes {
  const routes = new Map<string, GateRoute>();
  let gate: Gate | undefined;
  let hasBegun = false;
  let isDue = false;
  let last: Promise<void> = Promise.resolve();

  const handOver = async (): Promise<void> => {
    isDue = false;
    const wanted = [...routes.values()];
    try {
      if (gate !== undefined) await gate.set(wanted);
      else gate = await openGate(ports, wanted);
      if (routes.size > 0) return;
      gate.stopBy(ports.clock.monotonicMs() + STOP_MS);
      gate = undefined;
    } catch (err) {
      ports.log.error({ err }, "the gate does not take its routes");
    }
  };
  const changed = (): void => {
    if (!hasBegun || isDue) return;
    isDue = true;
    last = last.then(handOver);
  };
  return {
    put: async (route) => {
      routes.set(route.id, route);
      changed();
      await last;
      const status = hasBegun ? (await gate?.status())?.routes[route.id] : undefined;
      if (status === undefined || status.listening) return;
      const { address, port } = route.listen;
      const why = status.problems.join("; ");
      throw new MetalbridgeError(
        "EnginePortTaken",
        `the gate cannot listen on ${address} port ${port}: ${why}`,
      );
    },
    leave: (id) => {
      const route = routes.get(id);
      if (route === undefined) return;
      routes.set(id, { ...route, state: "leaving" });
      changed();
    },
    remove: (id) => {
      if (routes.delete(id)) changed();
    },
    inFlight: async (id) => (gate === undefined ? "unknown" : gate.inFlight(id)),
    read: async (timeoutMs) => {
      if (gate === undefined) return [];
      const asked = gate;
      return new Promise((resolve) => {
        const cancel = ports.clock.after(timeoutMs, () => resolve([]));
        readAll(asked)
          .then(resolve, () => resolve([]))
          .finally(cancel);
      });
    },
    begin: async () => {
      hasBegun = true;
      const before = await readRoutes(ports.folder).catch(() => undefined);
      if (routes.size === 0 && before?.length === 0) return;
      changed();
      await last;
    },
    settled: () => last,
    close: () => gate?.close(),
  };
}

async function readAll(gate: Gate): Promise<readonly RouteReading[]> {
  const counted = Object.entries(await gate.metrics());
  const readings = counted.map(async ([id, counters]) => ({
    id,
    inFlight: await gate.inFlight(id),
    counters,
  }));
  return Promise.all(readings);
}
