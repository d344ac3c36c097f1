/** Collects the readings for the Host status: cheap ones each time, expensive ones from a cache. */

import type { ConditionUpdate } from "../../src/api/conditions.ts";
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import type { HostCompute, HostRuntime, HostSystemInfo } from "../../src/api/host.ts";
import { KNOWN_PROGRAMS } from "../../src/engines/generic/known-programs.ts";
import type { HostReader, MemoryReading } from "../../src/macos/host-reader.ts";
import { cacheUntilStale } from "../../src/util/cache-until-stale.ts";
import { defined } from "../../src/util/defined.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { DetectedPrograms, EngineDevice, EngineDriver } from "../engines/driver/engine.ts";
import type { AddressAnswer } from "../host/addresses.ts";
import { installedElsewhere } from "../inventory/outside-store.ts";
import type { MemoryAssessment } from "../pressure/pressure-watch.ts";
import type { DiskReading, ModelStore } from "../store/types.ts";
import { type FoundRuntimes, type ObservedHost, pressureOf, type RuntimeProblem } from "./host-status.ts";

export interface HostObserverOptions {
  readonly reader: HostReader;
  readonly store: Pick<ModelStore, "list" | "disk" | "collect">;
  readonly drivers: readonly EngineDriver[];
  readonly clock: Clock;
  readonly log: Log;
  readonly agentVersion: string;
  /** The operator's settings for this machine; they override every reading. */
  readonly memory: { readonly budget?: number | undefined; readonly compute?: HostCompute | undefined };
  readonly diskReserveBytes: number;
  readonly address: () => AddressAnswer;
  /** The pressure governor's assessment of the readings. */
  readonly assessment: () => MemoryAssessment | undefined;
  readonly claimedBytes: () => number | Promise<number>;
  readonly isWorking: () => boolean;
  /** Runs doctor's checks of this machine and its engines, with a cache for expensive ones. */
  readonly machineConditions?: (engines: readonly HostRuntime[]) => Promise<readonly ConditionUpdate[]>;
  /** Folders and servers of other programs that are searched for models; absent to skip the search. */
  readonly otherPrograms?: Parameters<typeof installedElsewhere>[0];
  /** True once it is known which models are in use, so that the others may be removed. */
  readonly mayCollect: () => boolean;
  /** Called at each observation; "unreadable" when the second begins and none has succeeded. */
  readonly onReadings: (readings: MachineReadings | "unreadable") => void;
}

/** Readings for the memory budget and the metrics, with the pressure that status reports. */
export interface MachineReadings {
  readonly memory: MemoryReading;
  readonly gpuBudgetBytes: number | undefined;
  readonly disk: DiskReading | undefined;
  readonly runtimes: FoundRuntimes;
}

export interface HostObserver {
  /** Call it when the stored models have changed, so that the next observation reads them again. */
  readonly forgetModels: () => void;
  readonly observe: () => Promise<ObservedHost>;
  /** Stable id of the hardware; undefined if it cannot be read. */
  readonly machineId: () => Promise<string | undefined>;
}

const STORE_MS = 30_000;
/** Interval while models must not be collected yet: short, so that collection starts soon after it is allowed. */
const UNTIDY_MS = 2_000;
const WIRED_MS = 60_000;
const BUDGET_MS = 600_000;
/** First retry after a failed reading; a reading may take a child process of 5 s, so each retry comes later. */
const BUDGET_RETRY_MS = 4_000;
/** Timeout of one observation: longer than the first run of a newly installed engine usually takes. */
const OBSERVATION_MAX_MS = 30_000;
/** A tool that failed may succeed later; some machines never provide all values. */
const INFO_RETRY_MS = 600_000;
/** An upgraded engine is reported within this time. Programs whose files have not changed are not run again. */
const RUNTIMES_MS = 30_000;
/** Interval while a condition asks the user for a correction: a missing or broken engine, a full disk. */
const CORRECTION_MS = 4_000;
/** Models of other programs may be minutes old: they are only shown, and used to choose hosts. */
const INSTALLED_MS = 300_000;

export function createHostObserver(options: HostObserverOptions): HostObserver {
  const { reader, store, drivers, clock, log } = options;
  let info: HostSystemInfo = {};
  const readInfo = cacheUntilStale(
    clock,
    () => (isComplete(info) ? Number.POSITIVE_INFINITY : INFO_RETRY_MS),
    async () => {
      info = { ...info, ...defined(await reader.info()) };
      return info;
    },
  );
  const names = [...drivers.map(({ runtime }) => runtime), ...KNOWN_PROGRAMS.map(({ name }) => name)];
  const runtimesMs = ({ found, problems }: FoundRuntimes) =>
    problems.length > 0 || !names.every((name) => found.some((one) => one.name === name))
      ? CORRECTION_MS
      : RUNTIMES_MS;
  const runtimes = cacheUntilStale(clock, runtimesMs, createDetector(drivers, log));
  const budget = gpuBudget(options);
  const disk = cacheUntilStale(
    clock,
    (reading) => {
      if (!options.mayCollect()) return UNTIDY_MS;
      return reading === undefined || reading.freeBytes < options.diskReserveBytes ? CORRECTION_MS : STORE_MS;
    },
    () => readTidyDisk(options),
  );
  const installed = inBackground(options);
  const models = forgettable(clock, () => store.list());
  const wired = cachedFor(WIRED_MS, clock, () => reader.wiredBytes());
  let begun = 0;
  let hasRead = false;
  return {
    forgetModels: models.forget,
    machineId: async () => (await readInfo()).machineId,
    observe: bounded(clock, async (reading) => {
      begun += 1;
      if (begun === 2 && !hasRead) options.onReadings("unreadable");
      const memory = await reading("the memory", reader.memory());
      const gpuBudgetBytes = await reading("the GPU budget", budget());
      const diskReading = await reading("the disk of the model store", disk());
      const assessment = options.assessment();
      const assessed = { ...memory, pressure: pressureOf({ memory, assessment }) };
      const found = await reading("the installed engines", runtimes());
      hasRead = true;
      options.onReadings({ memory: assessed, gpuBudgetBytes, disk: diskReading, runtimes: found });
      return {
        info: { ...(await reading("the machine", readInfo())), agentVersion: options.agentVersion },
        memory: { ...memory, wiredBytes: await reading("the wired memory", wired()) },
        assessment,
        gpuBudgetBytes,
        compute: options.memory.compute,
        address: options.address(),
        claimedBytes: await reading("the shared servers", options.claimedBytes()),
        disk: diskReading,
        diskReserveBytes: options.diskReserveBytes,
        runtimes: found,
        models: (await reading("the model store", models.read())).map((model) => ({ ...model })),
        installed: installed(),
        machineConditions:
          (await reading("the machine's settings", options.machineConditions?.(found.found))) ?? [],
        isWorking: options.isWorking(),
      };
    }),
  };
}

type Reading = <T>(what: string, answer: T | Promise<T>) => Promise<T>;

/** Rejects if the observation fails or takes too long, with the name of the current reading. */
function bounded<T>(clock: Clock, observe: (reading: Reading) => Promise<T>): () => Promise<T> {
  return () => {
    let current = "";
    const reading: Reading = async (what, answer) => {
      current = what;
      return answer;
    };
    return new Promise((resolve, reject) => {
      const fail = (why: string, cause?: unknown): void =>
        reject(new Error(`cannot read ${current}: ${why}`, { cause }));
      const cancel = clock.after(OBSERVATION_MAX_MS, () =>
        fail(`no answer within ${OBSERVATION_MAX_MS / 1_000} s`),
      );
      observe(reading)
        .then(resolve, (error: unknown) =>
          fail(error instanceof Error ? error.message : String(error), error),
        )
        .finally(cancel);
    });
  };
}

function cachedFor<T>(ms: number, clock: Clock, read: () => Promise<T>): () => Promise<T> {
  return cacheUntilStale(clock, () => ms, read);
}

/** Returns the last result and reads in the background, because large folders or a hung server would delay the observation. */
function inBackground({ otherPrograms, clock, log }: HostObserverOptions): () => ObservedHost["installed"] {
  let last: ObservedHost["installed"];
  const read = cachedFor(INSTALLED_MS, clock, async () => {
    if (otherPrograms !== undefined) last = await installedElsewhere(otherPrograms);
  });
  return () => {
    read().catch((err: unknown) => log.warn({ err }, "cannot list the models of other programs"));
    return last;
  };
}

/** A cached value that is read again when it is stale, or after `forget`. */
function forgettable<T>(clock: Clock, load: () => Promise<T>) {
  const fresh = () => cachedFor(STORE_MS, clock, load);
  let read = fresh();
  return {
    read: () => read(),
    forget: () => {
      read = fresh();
    },
  };
}

/** Also removes unused models: a host with a full disk gets no new replica, so no download would free space. */
async function readTidyDisk({
  store,
  log,
  mayCollect,
}: HostObserverOptions): Promise<DiskReading | undefined> {
  if (mayCollect()) {
    await store.collect().catch((err: unknown) => log.warn({ err }, "cannot remove unused models"));
  }
  return store.disk().catch(() => undefined);
}

function isComplete(info: HostSystemInfo): boolean {
  const { machineId, osVersion, chip, hardwareModel, performanceCores, memoryBytes, bootTime } = info;
  const expected = [machineId, osVersion, chip, hardwareModel, performanceCores, memoryBytes, bootTime];
  return !expected.includes(undefined) && hasGpus(info);
}

/** On Linux, a GPU driver may be loaded after the agent has started. */
function hasGpus({ os, gpuCores, gpus }: HostSystemInfo): boolean {
  if (os === "darwin") return gpuCores !== undefined;
  return gpus?.every(({ unified, memoryBytes }) => unified || memoryBytes !== undefined) === true;
}

/** The operator's setting, otherwise the devices that engines report, otherwise the system's limit for the GPU. */
function gpuBudget({
  memory,
  drivers,
  reader,
  clock,
}: HostObserverOptions): () => Promise<number | undefined> {
  const devices = cachedBudget(clock, () => readDeviceBudget(drivers));
  const system = cachedBudget(clock, () => reader.gpuBudgetBytes());
  return async () => memory.budget ?? ((await devices()) || (await system()));
}

/** The last successful reading. A failed one (undefined) is retried soon, then with a growing delay. */
function cachedBudget(
  clock: Clock,
  load: () => Promise<number | undefined>,
): () => Promise<number | undefined> {
  let lastGood: number | undefined;
  let retryMs = BUDGET_RETRY_MS;
  const ageMs = (bytes: number | undefined): number => {
    const waitMs = retryMs;
    retryMs = bytes === undefined ? Math.min(BUDGET_MS, retryMs * 2) : BUDGET_RETRY_MS;
    return bytes === undefined ? waitMs : BUDGET_MS;
  };
  const read = cacheUntilStale(clock, ageMs, load);
  return async () => {
    lastGood = (await read()) ?? lastGood;
    return lastGood;
  };
}

/** The GPU memory that an engine reports: 0 if no engine has devices, undefined if one could not be queried. */
async function readDeviceBudget(drivers: readonly EngineDriver[]): Promise<number | undefined> {
  let none: 0 | undefined = 0;
  for (const driver of drivers) {
    const devices = await driver.devices?.().catch(() => "unknown" as const);
    const bytes = devices === "unknown" ? 0 : acrossDevices(devices ?? []);
    if (bytes > 0) return bytes;
    if (devices === "unknown") none = undefined;
  }
  return none;
}

/** Engines spread a model over all devices of one backend (CUDA0, CUDA1). A device that two backends list counts once. */
function acrossDevices(devices: readonly EngineDevice[]): number {
  const sums = new Map<string, number>();
  for (const { name, totalBytes } of devices) {
    const backend = name.replace(/\d+$/, "");
    sums.set(backend, (sums.get(backend) ?? 0) + totalBytes);
  }
  return Math.max(0, ...sums.values());
}

function entriesOf(name: string, detected: DetectedPrograms | undefined): readonly HostRuntime[] {
  if (detected === undefined) return [];
  const { version, path, programs = [] } = detected;
  return path === undefined ? programs : [{ name, version, path }, ...programs];
}

/** A problem is logged when it is new, not at each reading. */
function createDetector(drivers: readonly EngineDriver[], log: Log): () => Promise<FoundRuntimes> {
  let lastLogged: string | undefined;
  return async () => {
    const found: HostRuntime[] = [];
    const problems: RuntimeProblem[] = [];
    for (const { runtime, detect } of drivers) {
      try {
        found.push(...entriesOf(runtime, await detect()));
      } catch (error) {
        if (!(error instanceof MetalbridgeError)) throw error;
        problems.push({ runtime, code: error.code, message: describeError(error) });
      }
    }
    const text = problems.map(({ message }) => message).join("; ");
    if (text !== (lastLogged ?? "")) log.warn({ problems }, "engine found but not usable");
    lastLogged = text;
    return { found, problems };
  };
}
