/** One run per key at a time; later callers join it, and it is stopped once its last caller has left. */
import type { ReportBytes } from "../remote/download-context.ts";
import type { Tenants } from "../remote/host-limits.ts";

export interface SingleFlight<T> {
  /** `isOwn`: whether this call started the run. */
  readonly join: (
    key: string,
    caller: Caller,
    start: (signal: AbortSignal, report: ReportBytes, tenants: Tenants) => Promise<T>,
  ) => { readonly done: Promise<T>; readonly isOwn: boolean };
}

interface Caller {
  readonly tenant: string;
  readonly signal: AbortSignal;
  readonly onProgress: ReportBytes;
}

interface Flight<T> {
  readonly done: Promise<T>;
  readonly callers: Set<Caller>;
  readonly controller: AbortController;
}

interface Air<T> {
  readonly flying: Map<string, Flight<T>>;
  /** Abandoned runs that have not closed their files yet; the next run of the key waits for them. */
  readonly landing: Map<string, Promise<unknown>>;
}

export function createSingleFlight<T>(): SingleFlight<T> {
  const flights: Air<T> = { flying: new Map(), landing: new Map() };
  return {
    join: (key, caller, start) => {
      const existing = flights.flying.get(key);
      const flight = existing ?? launch(flights, key, start);
      flight.callers.add(caller);
      return { done: follow(flights, key, flight, caller), isOwn: existing === undefined };
    },
  };
}

function launch<T>(
  { flying, landing }: Air<T>,
  key: string,
  start: Parameters<SingleFlight<T>["join"]>[2],
): Flight<T> {
  const controller = new AbortController();
  const callers: Flight<T>["callers"] = new Set();
  const report: ReportBytes = (...said) => {
    for (const { onProgress } of callers) onProgress(...said);
  };
  const tenants = (): string[] => [...callers].map(({ tenant }) => tenant);
  const before = landing.get(key);
  const run = async (): Promise<T> => {
    await before;
    return start(controller.signal, report, tenants);
  };
  const done = run().finally(() => {
    if (flying.get(key)?.controller === controller) flying.delete(key);
  });
  done.catch(() => undefined);
  const flight = { done, callers, controller };
  flying.set(key, flight);
  return flight;
}

async function follow<T>(air: Air<T>, key: string, flight: Flight<T>, caller: Caller): Promise<T> {
  const { signal } = caller;
  let leave = (): void => undefined;
  const left = new Promise<never>((_, reject) => {
    leave = () => reject(signal.reason);
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
  });
  try {
    return await Promise.race([flight.done, left]);
  } finally {
    signal.removeEventListener("abort", leave);
    flight.callers.delete(caller);
    if (flight.callers.size === 0) abandon(air, key, flight, signal.reason);
  }
}

function abandon<T>({ flying, landing }: Air<T>, key: string, flight: Flight<T>, reason: unknown): void {
  // Removed from the map at once, or a new caller would join a run that is stopping.
  if (flying.get(key) !== flight) return;
  flying.delete(key);
  const landed = flight.done
    .catch(() => undefined)
    .finally(() => {
      if (landing.get(key) === landed) landing.delete(key);
    });
  landing.set(key, landed);
  flight.controller.abort(reason);
}
