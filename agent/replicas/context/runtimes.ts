/** Detects which engines are installed. Results are cached; a new detection runs on request. */
import { describeError, type ErrorCode, MetalbridgeError } from "../../../src/api/errors.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import type { EngineDriver } from "../../engines/driver/engine.ts";
import type { RuntimeState } from "../evidence/observed.ts";

export interface Runtimes {
  readonly driver: (runtime: string) => EngineDriver | undefined;
  readonly state: (runtime: string) => RuntimeState;
  /** Runs one detection at a time per runtime. Afterwards `state` returns the result. */
  readonly detect: (runtime: string) => Promise<void>;
}

export function createRuntimes(ports: {
  readonly drivers: ReadonlyMap<string, EngineDriver>;
  readonly clock: Clock;
  readonly log: Log;
}): Runtimes {
  const { drivers } = ports;
  const states = new Map<string, RuntimeState>();
  const detections = new Map<string, Promise<void>>();

  const detectAndStore = async (runtime: string, driver: EngineDriver): Promise<void> => {
    const next = await detectOnce(driver, ports.clock);
    const before = states.get(runtime);
    if (before?.at !== next.at) ports.log.info({ runtime, state: next }, "runtime state changed");
    states.set(runtime, next);
  };
  return {
    driver: (runtime) => drivers.get(runtime),
    state: (runtime) =>
      drivers.has(runtime)
        ? (states.get(runtime) ?? { at: "unknown" })
        : { at: "unsupported", message: `this agent cannot run ${runtime}; choose another spec.runtime` },
    detect: (runtime) => {
      const driver = drivers.get(runtime);
      if (driver === undefined) return Promise.resolve();
      const current =
        detections.get(runtime) ?? detectAndStore(runtime, driver).finally(() => detections.delete(runtime));
      detections.set(runtime, current);
      return current;
    },
  };
}

async function detectOnce(driver: EngineDriver, clock: Clock): Promise<RuntimeState> {
  const missing = (code: ErrorCode, message: string): RuntimeState => ({
    at: "missing",
    code,
    message,
    checkedAt: clock.monotonicMs(),
  });
  try {
    const found = await driver.detect();
    if (found !== undefined) return { at: "present", version: found.version, checkedAt: clock.monotonicMs() };
    const error = new MetalbridgeError(
      "RuntimeNotInstalled",
      `${driver.runtime} is not installed on this host, or not in a location that the agent searches`,
    );
    return missing(error.code, describeError(error));
  } catch (error) {
    if (error instanceof MetalbridgeError) return missing(error.code, describeError(error));
    return missing("RuntimeBroken", `cannot detect ${driver.runtime}: ${String(error)}`);
  }
}
