/** Gathers what the Host status says: cheap readings each time, expensive ones remembered for a while. */
import type { HostInfo, HostRuntime } from "../../src/api/host.ts";
import { describeError, MetalbridgeError } from "../../src/errors.ts";
import type { Clock, Log } from "../../src/ports.ts";
import type { EngineDriver } from "../engines/engine.ts";
import type { AddressAnswer } from "../host/addresses.ts";
import type { HostReader, MemoryReading } from "../host/host-reader.ts";
import type { MemoryJudgement } from "../pressure/pressure-watch.ts";
import type { DiskReading, ModelStore } from "../store/types.ts";
import { type FoundRuntimes, type ObservedHost, pressureOf, type RuntimeTrouble } from "./host-status.ts";

export interface HostObserverOptions {
  readonly reader: HostReader;
  readonly store: Pick<ModelStore, "list" | "disk" | "collect">;
  readonly drivers: readonly EngineDriver[];
  readonly clock: Clock;
  readonly log: Log;
  readonly agentVersion: string;
  /** The operator's word on this machine; wins over every reading. */
  readonly budgetBytes: number | undefined;
  readonly diskReserveBytes: number;
  readonly address: () => AddressAnswer;
  /** What the pressure governor makes of the readings. */
  readonly judgement: () => MemoryJudgement | undefined;
  readonly claimedBytes: () => number;
  readonly isWorking: () => boolean;
  /** Whether it is known which models are in use, so that the others may make room. */
  readonly mayCollect: () => boolean;
}

export interface HostObserver {
  readonly observe: () => Promise<ObservedHost>;
  /** The last readings, with the pressure that status tells; undefined before the first. */
  readonly latest: () =>
    | {
        readonly memory: MemoryReading;
        readonly gpuBudgetBytes: number | undefined;
        readonly disk: DiskReading | undefined;
      }
    | undefined;
}

const STORE_MS = 30_000;
/** While nothing may be collected, the first moment when it may is not to be missed by much. */
const UNTIDY_MS = 2_000;
const WIRED_MS = 60_000;
const ENGINES_MS = 600_000;
/** Somebody is about to install or upgrade it. */
const MISSING_ENGINES_MS = 15_000;

export function createHostObserver(options: HostObserverOptions): HostObserver {
  const { reader, store, drivers, clock, log } = options;
  const info = remembered(
    clock,
    () => Number.POSITIVE_INFINITY,
    () => reader.info(),
  );
  const runtimes = remembered(
    clock,
    ({ found, troubles }) => (found.length > 0 && troubles.length === 0 ? ENGINES_MS : MISSING_ENGINES_MS),
    createDetector(drivers, log),
  );
  const budget = remembered(
    clock,
    () => ENGINES_MS,
    async () => options.budgetBytes ?? (await deviceBudget(drivers)) ?? reader.gpuBudgetBytes(),
  );
  const disk = remembered(
    clock,
    () => (options.mayCollect() ? STORE_MS : UNTIDY_MS),
    () => readTidyDisk(options),
  );
  const models = remembered(
    clock,
    () => STORE_MS,
    () => store.list(),
  );
  const wired = remembered(
    clock,
    () => WIRED_MS,
    () => reader.wiredBytes(),
  );
  let last: ReturnType<HostObserver["latest"]>;
  return {
    latest: () => last,
    observe: async () => {
      const memory = await reader.memory();
      const gpuBudgetBytes = await budget();
      const diskReading = await disk();
      const judgement = options.judgement();
      const judged = { ...memory, pressure: pressureOf({ memory, judgement }) };
      last = { memory: judged, gpuBudgetBytes, disk: diskReading };
      const known: HostInfo = { ...(await info()), agentVersion: options.agentVersion };
      return {
        info: known,
        memory: { ...memory, wiredBytes: await wired() },
        judgement,
        gpuBudgetBytes,
        address: options.address(),
        claimedBytes: options.claimedBytes(),
        disk: diskReading,
        diskReserveBytes: options.diskReserveBytes,
        runtimes: await runtimes(),
        models: (await models()).map((model) => ({ ...model })),
        isWorking: options.isWorking(),
      };
    },
  };
}

/** A full disk gets no new replica, hence no download that would make room: unused models go without one. */
async function readTidyDisk({
  store,
  log,
  mayCollect,
}: HostObserverOptions): Promise<DiskReading | undefined> {
  if (mayCollect()) {
    await store.collect().catch((err: unknown) => log.warn({ err }, "unused models could not be removed"));
  }
  return store.disk().catch(() => undefined);
}

/** The largest device that an engine sees; engines without one say nothing. */
async function deviceBudget(drivers: readonly EngineDriver[]): Promise<number | undefined> {
  for (const driver of drivers) {
    const devices = await driver.devices().catch(() => "unknown" as const);
    if (devices === "unknown") continue;
    const largest = Math.max(0, ...devices.map((device) => device.totalBytes));
    if (largest > 0) return largest;
  }
  return undefined;
}

/** A trouble is logged when it is new, not at each look. */
function createDetector(drivers: readonly EngineDriver[], log: Log): () => Promise<FoundRuntimes> {
  let said: string | undefined;
  return async () => {
    const found: HostRuntime[] = [];
    const troubles: RuntimeTrouble[] = [];
    for (const { runtime, detect } of drivers) {
      try {
        const detected = await detect();
        if (detected !== undefined)
          found.push({ name: runtime, version: detected.version, path: detected.path });
      } catch (error) {
        if (!(error instanceof MetalbridgeError)) throw error;
        troubles.push({ runtime, code: error.code, message: describeError(error) });
      }
    }
    const text = troubles.map(({ message }) => message).join("; ");
    if (text !== (said ?? "")) log.warn({ troubles }, "engine found but not usable");
    said = text;
    return { found, troubles };
  };
}

/** Asks again when the answer is older than `maxAgeMs` says; one question at a time. */
function remembered<T>(
  clock: Clock,
  maxAgeMs: (answer: T) => number,
  ask: () => Promise<T>,
): () => Promise<T> {
  let answer: { readonly value: Promise<T>; staleAtMs: number } | undefined;
  return () => {
    const nowMs = clock.monotonicMs();
    if (answer !== undefined && nowMs < answer.staleAtMs) return answer.value;
    const mine = { value: ask(), staleAtMs: Number.POSITIVE_INFINITY };
    answer = mine;
    mine.value.then(
      (value) => {
        mine.staleAtMs = nowMs + maxAgeMs(value);
      },
      () => {
        if (answer === mine) answer = undefined;
      },
    );
    return mine.value;
  };
}
