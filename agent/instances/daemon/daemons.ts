/** Shared daemons: one process per kind of daemon, with several models. A replica's instance is a reference to a model in a daemon. */
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { writeRecord } from "../../../src/supervise/run-directory.ts";
import type { Instance, InstanceContext, InstanceTarget } from "../instance.ts";
import { Daemon } from "./daemon.ts";
import { DaemonReference } from "./reference.ts";
import type { DaemonPorts, DaemonSpec, ModelReference } from "./spec.ts";

export interface Daemons {
  /** Starts the daemon if none runs, then loads the model unless another replica has loaded it. */
  readonly open: (place: InstanceContext, spec: DaemonSpec, reference: ModelReference) => Promise<Instance>;
  /** Restores the reference of an earlier agent from its record. Queries the daemon and changes nothing. */
  readonly adopt: (
    place: InstanceContext,
    spec: DaemonSpec,
    record: Readonly<Record<string, unknown>>,
  ) => Promise<Instance | undefined>;
  /** Calls `work` once the daemon answers, and keeps the daemon running until the work has finished. */
  readonly during: <T>(spec: DaemonSpec, work: (target: InstanceTarget) => Promise<T>) => Promise<T>;
  /** Counts the models that a found daemon has loaded, even while no replica uses it. */
  readonly watch: (spec: DaemonSpec) => void;
  /** Reads the memory that the daemons use in addition to the models that replicas have claimed. */
  readonly measure: () => Promise<void>;
  /** The last reading, in bytes: the daemons themselves, and models that other clients loaded. */
  readonly unclaimedBytes: () => number;
  /**
   * Stops daemons of an earlier agent that have no reference, and starts sweeping. Waits for `isAllKnown`, which each
   * `measure` checks again: until then a reference that could not be read may need a daemon.
   */
  readonly stopUnused: (isAllKnown: () => boolean) => Promise<void>;
  /** Adds a sweep that removes models from a daemon's disk which no reference names. It runs after adoption, then every ten minutes. */
  readonly sweepBy: (sweep: SweepModels) => void;
}

export type SweepModels = (isNamed: (model: string) => boolean) => Promise<void>;

const SWEEP_MS = 600_000;

export function createDaemons(ports: DaemonPorts): Daemons {
  const daemons = new Map<string, Daemon>();
  const sweeper = createSweeper(ports, (model) =>
    [...daemons.values()].some(({ references }) =>
      [...references].some(({ handle }) => handle.model === model),
    ),
  );
  let unclaimedBytes = 0;
  let isAllKnown: (() => boolean) | undefined;
  const daemonOf = (spec: DaemonSpec): Daemon => {
    const daemon =
      daemons.get(spec.name) ?? new Daemon(spec, { ...ports, living: () => [...daemons.values()] });
    daemons.set(spec.name, daemon);
    if (spec.start !== undefined) daemon.spec = spec;
    return daemon;
  };
  const stopUnused = async (): Promise<void> => {
    if (isAllKnown?.() !== true) return;
    isAllKnown = undefined;
    await stopWithoutReference(ports, daemonOf);
    sweeper.begin();
  };
  return {
    open: async (place, spec, { model, record, weights, prepare }) => {
      const daemon = daemonOf(spec);
      const handle = { daemon: spec.name, model, weights };
      daemon.refuseConflict(handle);
      mkdirSync(place.dir, { recursive: true, mode: 0o700 });
      // Before anything is loaded: a reservation must not be lost with the agent.
      writeRecord(place.dir, { ...record, ...handle });
      return daemon.use((process) => {
        const reference = new DaemonReference(daemon, process, place, handle, ports, prepare);
        reference.load();
        return reference;
      });
    },
    adopt: async (place, spec, { model, weights }) => {
      if (typeof model !== "string") return undefined;
      const daemon = daemonOf(spec);
      const handle = { daemon: spec.name, model, weights: typeof weights === "string" ? weights : undefined };
      const reference = new DaemonReference(daemon, await daemon.adopted(), place, handle, ports);
      await reference.check();
      return reference;
    },
    during: (spec, work) => {
      const daemon = daemonOf(spec);
      return daemon.use(async (process) => {
        await daemon.waitUntilAnswering(process);
        return work(process.target);
      });
    },
    watch: (spec) => void daemonOf(spec),
    sweepBy: sweeper.add,
    measure: async () => {
      await stopUnused();
      sweeper.runIfDue();
      const readings = [...daemons.values()].map((daemon) => daemon.unclaimedBytes());
      unclaimedBytes = (await Promise.all(readings)).reduce((sum, bytes) => sum + bytes, 0);
    },
    unclaimedBytes: () => unclaimedBytes,
    stopUnused: async (isKnown) => {
      isAllKnown = isKnown;
      await stopUnused();
      if (isAllKnown !== undefined)
        ports.log.warn(
          {},
          "engines of the last agent could not all be read; no shared server is stopped until they are",
        );
    },
  };
}

/** Stops daemons of an earlier agent that have no reference. */
async function stopWithoutReference(
  { folder, log }: DaemonPorts,
  daemonOf: (spec: DaemonSpec) => Daemon,
): Promise<void> {
  const api = () => ({ loaded: async () => [], load: async () => {}, unload: async () => {} });
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const daemon = daemonOf({ name, api });
    await daemon.adopted().then(
      () => daemon.stopIfUnused(),
      (err: unknown) =>
        log.error({ err, daemon: name }, "cannot read whether a daemon runs; it is not stopped"),
    );
  }
}

/** Sweeps only after all references are adopted: until then it is unknown which models are in use. */
function createSweeper({ clock, log }: DaemonPorts, isNamed: (model: string) => boolean) {
  const sweeps: SweepModels[] = [];
  let dueAt = Number.POSITIVE_INFINITY;
  const runIfDue = (): void => {
    if (clock.monotonicMs() < dueAt) return;
    dueAt = Number.POSITIVE_INFINITY;
    Promise.all(sweeps.map((sweep) => sweep(isNamed)))
      .catch((err: unknown) => log.warn({ err }, "cannot remove models that no replica uses; retrying"))
      .finally(() => {
        dueAt = clock.monotonicMs() + SWEEP_MS;
      });
  };
  return {
    add: (sweep: SweepModels) => void sweeps.push(sweep),
    runIfDue,
    begin: () => {
      dueAt = clock.monotonicMs();
      runIfDue();
    },
  };
}
