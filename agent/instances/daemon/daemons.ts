/** Shared daemons: one process per kind of daemon, several models in it. A replica's instance is a reference to (daemon, model). */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Activity } from "../../../src/macos/living-process.ts";
import type { Clock, Log } from "../../../src/ports.ts";
import type { Ending, ExitRecord, Instance, InstanceState, InstanceTarget, Place } from "../instance.ts";
import type { ProcessInstances } from "../process/process-instance.ts";
import { writeEngineRecord } from "../process/run-directory.ts";

const RETRY_MS = 100;
/** Time for a daemon that nothing refers to any more to stop. */
const STOP_MS = 5_000;

/** The daemon's own interface. Each call gives up in bounded time, by rejecting, and is safe to repeat. */
export interface DaemonApi {
  readonly load: (model: string) => Promise<void>;
  readonly unload: (model: string) => Promise<void>;
  readonly isLoaded: (model: string) => Promise<boolean>;
}

export interface DaemonSpec {
  /** One daemon per name on a host; also its folder. */
  readonly name: string;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly target: InstanceTarget;
  readonly api: DaemonApi;
}

/** A model, by the name its daemon has for it, and the reservation of the replica that refers to it. */
export interface ModelReference {
  readonly model: string;
  readonly record: Readonly<Record<string, unknown>>;
}

export interface Daemons {
  /** Starts the daemon where none runs, then loads the model where no other replica has. */
  readonly open: (place: Place, spec: DaemonSpec, reference: ModelReference) => Promise<Instance>;
  /** The reference in an earlier agent's record. Asks the daemon, and changes nothing. */
  readonly adopt: (
    place: Place,
    spec: DaemonSpec,
    record: Readonly<Record<string, unknown>>,
  ) => Promise<Instance | undefined>;
}

interface DaemonPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly processes: ProcessInstances;
  readonly folder: string;
}

export function createDaemons(ports: DaemonPorts): Daemons {
  const daemons = new Map<string, Daemon>();
  const daemonOf = (spec: DaemonSpec): Daemon => {
    const daemon = daemons.get(spec.name) ?? new Daemon(spec, ports);
    daemons.set(spec.name, daemon);
    return daemon;
  };
  return {
    open: async (place, spec, { model, record }) => {
      const daemon = daemonOf(spec);
      const handle = { model };
      mkdirSync(place.dir, { recursive: true, mode: 0o700 });
      // Before anything is loaded: a reservation must not be lost with the agent.
      writeEngineRecord(place.dir, { ...record, ...handle });
      const reference = new Reference(daemon, await daemon.running(), place, handle, ports);
      reference.load();
      return reference;
    },
    adopt: async (place, spec, { model }) => {
      if (typeof model !== "string") return undefined;
      const daemon = daemonOf(spec);
      const reference = new Reference(daemon, await daemon.adopted(), place, { model }, ports);
      await reference.check();
      return reference;
    },
  };
}

/** One daemon on this host, with all references to it. */
class Daemon {
  readonly spec: DaemonSpec;
  readonly #ports: DaemonPorts;
  readonly #place: Place;
  readonly references = new Set<Reference>();
  #process: Instance | undefined;
  /** Starts, adoptions and calls that change what is loaded, one after the other. */
  #last: Promise<unknown> = Promise.resolve();
  readonly #whenGone = new Set<() => void>();

  constructor(spec: DaemonSpec, ports: DaemonPorts) {
    this.spec = spec;
    this.#ports = ports;
    const log = ports.log.child({ daemon: spec.name });
    this.#place = { dir: join(ports.folder, spec.name), log, onChange: () => this.#changed() };
  }

  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  /** The living process, started where there is none. */
  running(): Promise<Instance> {
    return this.inTurn(async () => {
      const before = await this.#adopt();
      const state = before?.state();
      if (before !== undefined && state !== undefined && state.at !== "gone") {
        if (state.ending === undefined) return before;
        await this.#gone(before);
      }
      before?.close();
      const { argv, env, target, name } = this.spec;
      this.#process = await this.#ports.processes.open(this.#place, { argv, env, target, record: { name } });
      return this.#process;
    });
  }

  /** The process as an earlier agent left it; undefined where there never was one. */
  adopted(): Promise<Instance | undefined> {
    return this.inTurn(() => this.#adopt());
  }

  /** Forgets a reference; with the last one to anything, the daemon itself is stopped. */
  release(reference: Reference, process: Instance | undefined): void {
    if (!this.references.delete(reference) || process === undefined) return;
    if ([...this.references].some((other) => other.uses(process))) return;
    if (process.state().at === "gone") process.close();
    else process.stopBy(this.#ports.clock.monotonicMs() + STOP_MS);
  }

  async #adopt(): Promise<Instance | undefined> {
    this.#process ??= await this.#ports.processes.adopt(this.#place, this.spec.target);
    return this.#process;
  }

  #gone(process: Instance): Promise<void> {
    return new Promise((resolve) => {
      const look = (): void => {
        if (process.state().at !== "gone") return;
        this.#whenGone.delete(look);
        resolve();
      };
      this.#whenGone.add(look);
      look();
    });
  }

  #changed(): void {
    for (const look of this.#whenGone) look();
    for (const reference of this.references) reference.changed();
  }
}

class Reference implements Instance {
  readonly target: InstanceTarget;
  readonly handle: { readonly model: string };
  readonly logPath: string;
  readonly #daemon: Daemon;
  readonly #process: Instance | undefined;
  readonly #place: Place;
  readonly #clock: Clock;
  #isLoaded = false;
  #ending: Ending | undefined;
  #deadline = Number.POSITIVE_INFINITY;
  /** Set once the daemon no longer has the model on this replica's account. */
  #exit: ExitRecord | "unknown" | undefined;
  #cancel: (() => void) | undefined;

  constructor(
    daemon: Daemon,
    process: Instance | undefined,
    place: Place,
    handle: { readonly model: string },
    { clock, folder }: DaemonPorts,
  ) {
    this.#daemon = daemon;
    this.#process = process;
    this.#place = place;
    this.#clock = clock;
    this.handle = handle;
    this.target = { ...daemon.spec.target, modelAlias: handle.model };
    this.logPath = join(folder, daemon.spec.name, "log");
    daemon.references.add(this);
  }

  state(): InstanceState {
    if (this.#exit !== undefined) return { at: "gone", exit: this.#exit };
    const daemon = this.#process?.state() ?? { at: "gone", exit: "unknown" };
    if (daemon.at === "gone") return daemon;
    const ending = this.#ending === undefined ? {} : { ending: this.#ending };
    if (daemon.at === "ended") return { at: "ended", exit: daemon.exit, ...ending };
    if (daemon.at === "starting" || !this.#isLoaded) return { at: "starting", ...ending };
    return { at: "running", ...ending, ...(daemon.pid === undefined ? {} : { pid: daemon.pid }) };
  }

  uses(process: Instance): boolean {
    return this.#process === process;
  }

  changed(): void {
    this.#place.onChange();
  }

  /** Repeated until the daemon, which may only be starting, has the model, or this reference ends. */
  load(): void {
    if (this.#isLoaded || this.#ending !== undefined || this.state().at !== "starting") return;
    this.#daemon
      .inTurn(() => this.#daemon.spec.api.load(this.handle.model))
      .then(
        () => {
          this.#isLoaded = true;
          this.#place.onChange();
        },
        () => this.#later(() => this.load()),
      );
  }

  /** Whether an earlier agent's reference still holds. A daemon that does not answer counts as holding it: probes decide. */
  async check(): Promise<void> {
    if (this.state().at === "gone") return;
    this.#isLoaded = await this.#daemon.spec.api.isLoaded(this.handle.model).catch(() => true);
    if (!this.#isLoaded) this.#exit = "unknown";
  }

  stopBy(deadlineMs: number): void {
    if (this.#ending === "killing" || deadlineMs >= this.#deadline) return;
    const isFirst = this.#ending === undefined;
    this.#ending = "stopping";
    this.#deadline = deadlineMs;
    if (isFirst) this.#unload();
  }

  /** A daemon that does not even unload is hung for all its models: it is killed, and each of them sees that as its own end. */
  endNow(): void {
    if (this.#ending === "killing") return;
    const isFirst = this.#ending === undefined;
    this.#ending = "killing";
    if (isFirst) this.#unload();
  }

  /** Covers all models together; it cannot be split by model. */
  footprintBytes(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  activity(): Promise<Activity> {
    return this.#process?.activity() ?? Promise.resolve("unknown");
  }

  restoreFiles(): boolean {
    return this.#process?.restoreFiles() ?? false;
  }

  logTail(bytes: number): Promise<string> {
    return this.#process?.logTail(bytes) ?? Promise.resolve("");
  }

  /** The daemon keeps the model: an agent that stops leaves its engines running. */
  close(): void {
    this.#cancel?.();
    if (this.state().at === "gone") this.#daemon.release(this, this.#process);
    else this.#daemon.references.delete(this);
  }

  #unload(): void {
    if (this.state().at === "gone") return;
    this.#daemon
      .inTurn(() => this.#unloadUnlessShared())
      .then(
        () => this.#leave(),
        () => {
          if (this.#ending === "killing" || this.#clock.monotonicMs() >= this.#deadline)
            this.#process?.endNow();
          else this.#later(() => this.#unload());
        },
      );
  }

  async #unloadUnlessShared(): Promise<void> {
    const isShared = [...this.#daemon.references].some(
      (other) => other !== this && other.#exit === undefined && other.handle.model === this.handle.model,
    );
    if (!isShared && this.#process?.state().at === "running") {
      await this.#daemon.spec.api.unload(this.handle.model);
    }
    // Here, not after the turn: the next in line must not count this reference any more.
    this.#exit = { code: 0 };
  }

  #leave(): void {
    this.#daemon.release(this, this.#process);
    this.#place.onChange();
  }

  #later(again: () => void): void {
    this.#cancel?.();
    this.#cancel = this.#clock.after(RETRY_MS, again);
  }
}
