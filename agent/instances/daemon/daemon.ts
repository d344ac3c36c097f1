/** One shared daemon of this host: its process, and all references to its models. */
import { randomInt } from "node:crypto";
import { join } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { readRecord } from "../../../src/supervise/run-directory.ts";
import type { Instance, InstanceContext, InstanceTarget } from "../instance.ts";
import { chooseEnginePort, isFree } from "../process/engine-port.ts";
import type { DaemonPorts, DaemonSpec, DaemonUser, LoadedModel } from "./spec.ts";

const LOOPBACK = "127.0.0.1";
const RETRY_MS = 100;
/** Time to stop for a daemon without references. */
const STOP_MS = 5_000;
/** Time for a daemon to answer after its start. */
const START_MS = 30_000;
/** On a Mac, reading a footprint takes a child process of 40 ms; listing the daemon's loaded models is cheap. */
const FOOTPRINT_MS = 60_000;

interface FootprintReading {
  readonly process: Instance;
  readonly loaded: string;
  readonly at: number;
  readonly bytes: number;
}

export class Daemon {
  spec: DaemonSpec;
  readonly references = new Set<DaemonUser>();
  readonly #ports: DaemonPorts & { readonly living: () => readonly Daemon[] };
  readonly #place: InstanceContext;
  #process: Instance | undefined;
  /** Number of current calls of `use`. */
  #users = 0;
  /** Serializes work by key: the empty key for starts and adoptions, a model's name for changes of that model. */
  readonly #last = new Map<string, Promise<unknown>>();
  readonly #listeners = new Set<() => void>();
  #unclaimedBytes = 0;
  #footprint: FootprintReading | undefined;
  /** Memory of the daemon itself, without its models, as last read. */
  #ownBytes: number | undefined;

  constructor(spec: DaemonSpec, ports: DaemonPorts & { readonly living: () => readonly Daemon[] }) {
    this.spec = spec;
    this.#ports = ports;
    const log = ports.log.child({ daemon: spec.name });
    this.#place = { dir: join(ports.folder, spec.name), log, onChange: () => this.#changed() };
  }

  inTurn<T>(model: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#last.get(model) ?? Promise.resolve()).then(work);
    const settled = turn.catch(() => undefined);
    this.#last.set(model, settled);
    void settled.then(() => this.#last.get(model) === settled && this.#last.delete(model));
    return turn;
  }

  /** The running process; starts one if there is none. */
  #running(): Promise<Instance> {
    return this.inTurn("", async () => {
      const before = await this.#adopt();
      const state = before?.state();
      if (before !== undefined && state !== undefined && state.at !== "gone") {
        if (state.ending === undefined) return before;
        await this.#waitForExit(before);
      }
      before?.close();
      this.#process = undefined;
      this.#process = await this.#start();
      return this.#process;
    });
  }

  /** The process that an earlier agent started; undefined if there never was one. */
  adopted(): Promise<Instance | undefined> {
    return this.inTurn("", () => this.#adopt());
  }

  /** Keeps the daemon running at least until the work has finished. */
  async use<T>(work: (process: Instance) => T | Promise<T>): Promise<T> {
    this.#users += 1;
    try {
      return await work(await this.#running());
    } finally {
      this.#users -= 1;
      this.stopIfUnused();
    }
  }

  /** Stops the daemon once nothing refers to it. */
  stopIfUnused(): void {
    const process = this.#process;
    if (process === undefined) return;
    const isUsed = this.#users > 0 || [...this.references].some((reference) => reference.uses(process));
    const isLost = process.target.port === 0 && process.state().at !== "gone";
    if (isUsed && !isLost) return;
    if (isLost)
      this.#place.log.warn(
        {},
        "the record of a running daemon's port is lost; stopping and replacing the daemon",
      );
    if (process.state().at !== "gone") process.stopBy(this.#ports.clock.monotonicMs() + STOP_MS);
    else if (this.#process === process) {
      process.close();
      this.#process = undefined;
    }
  }

  /** Throws if these weights are served under another name: a daemon that loads them only once would reload them again and again. */
  refuseConflict({ model, weights }: DaemonUser["handle"]): void {
    const other = [...this.references].find(
      ({ handle }) => weights !== undefined && handle.weights === weights && handle.model !== model,
    );
    if (other === undefined) return;
    const message = `${this.spec.name} already serves these weights with other settings, and cannot load them twice`;
    throw new MetalbridgeError("SettingUnavailable", message, {
      summary: "give both services the same model and settings, or place them on different hosts",
    });
  }

  /** Bytes that no replica has claimed. If the daemon runs and does not answer, the last reading. */
  async unclaimedBytes(): Promise<number> {
    const target = this.spec.found ?? this.#process?.target;
    if (target === undefined || (this.#process?.state().at ?? "running") !== "running") return 0;
    const claimed = new Set([...this.references].map(({ handle }) => handle.model));
    const loaded = await this.spec
      .api(target)
      .loaded()
      .catch(() => undefined);
    if (loaded === undefined) {
      // The owner has stopped its daemon; for our own daemon the process state shows that.
      if (this.spec.found !== undefined && (await isFree(target.port, [target.host])))
        this.#unclaimedBytes = 0;
      return this.#unclaimedBytes;
    }
    const foreign = loaded.filter(({ model }) => !claimed.has(model));
    const footprintBytes = await this.#footprintBytes(loaded);
    if (footprintBytes !== undefined) this.#ownBytes = this.#ownOf(footprintBytes, loaded);
    this.#unclaimedBytes = sumOf(foreign) + (this.#ownBytes ?? 0);
    return this.#unclaimedBytes;
  }

  /** Reads the footprint again once another set of models is loaded, or after a minute. */
  async #footprintBytes(models: readonly LoadedModel[]): Promise<number | undefined> {
    const process = this.#process;
    if (process === undefined) return undefined;
    const loaded = JSON.stringify(models);
    const at = this.#ports.clock.monotonicMs();
    const last = this.#footprint;
    if (last?.process === process && last.loaded === loaded && at - last.at < FOOTPRINT_MS) return last.bytes;
    const bytes = await process.footprintBytes();
    this.#footprint = bytes === undefined ? undefined : { process, loaded, at, bytes };
    return bytes;
  }

  /** The footprint of a single process includes work on requests, which the models' claims cover: the minimum is the daemon's own. */
  #ownOf(footprintBytes: number, loaded: readonly LoadedModel[]): number | undefined {
    if (this.spec.isOneProcess !== true) return footprintBytes;
    const ownBytes = footprintBytes - sumOf(loaded);
    // A model is still being loaded.
    if (ownBytes <= 0) return this.#ownBytes;
    return Math.min(this.#ownBytes ?? ownBytes, ownBytes);
  }

  async #start(): Promise<Instance> {
    const { start, found, name } = this.spec;
    if (found !== undefined) return externalDaemon(found);
    if (start === undefined) throw new Error(`${name} was adopted, and its start command is not known`);
    const [first, last] = start.ports;
    // Another agent on this machine may be choosing a port at the same moment.
    const from = randomInt(first, Math.floor((first + last) / 2) + 1);
    const taken = new Set(this.#ports.living().map((daemon) => daemon.#process?.target.port ?? 0));
    const port = await chooseEnginePort({ range: [from, last], taken });
    this.#ownBytes = undefined;
    return this.#ports.processes.open(this.#place, {
      ...(await start.command(port)),
      target: this.#targetAt(port),
      record: { name, port },
    });
  }

  async #adopt(): Promise<Instance | undefined> {
    if (this.#process === undefined && this.spec.found !== undefined)
      this.#process = externalDaemon(this.spec.found);
    if (this.#process !== undefined) return this.#process;
    const record = readRecord(this.#place.dir);
    const port = typeof record === "object" && record !== null && "port" in record ? Number(record.port) : 0;
    this.#process = await this.#ports.processes.adopt(this.#place, this.#targetAt(port));
    return this.#process;
  }

  #targetAt(port: number): InstanceTarget {
    return { host: LOOPBACK, port, keyFile: this.spec.keyFile };
  }

  /** Rejects if the daemon exits or does not answer in time. */
  async waitUntilAnswering(process: Instance): Promise<void> {
    const { clock } = this.#ports;
    const until = clock.monotonicMs() + START_MS;
    const api = this.spec.api(process.target);
    const isAnswering = () =>
      api.loaded().then(
        () => true,
        () => false,
      );
    while (!(await isAnswering())) {
      const { at } = process.state();
      if (at === "ended" || at === "gone" || clock.monotonicMs() > until) {
        const lastLine = (await process.logTail(400).catch(() => "")).trim().split("\n").at(-1);
        throw new MetalbridgeError("EngineStartFailed", `${this.spec.name} does not answer: ${lastLine}`);
      }
      await new Promise<void>((resolve) => void clock.after(RETRY_MS, resolve));
    }
  }

  #waitForExit(process: Instance): Promise<void> {
    return new Promise((resolve) => {
      const check = (): void => {
        if (process.state().at !== "gone") return;
        this.#listeners.delete(check);
        resolve();
      };
      this.#listeners.add(check);
      check();
    });
  }

  #changed(): void {
    for (const check of this.#listeners) check();
    for (const reference of this.references) reference.changed();
  }
}

/** A daemon that was found running: its owner starts and stops it. Probes decide whether it answers. */
function externalDaemon(target: InstanceTarget): Instance {
  return {
    target,
    state: () => ({ at: "running" }),
    handle: {},
    logPath: "",
    stopBy: () => {},
    killNow: () => {},
    footprintBytes: async () => undefined,
    activity: async () => "unknown",
    restoreFiles: () => false,
    logTail: async () => "",
    close: () => {},
  };
}

function sumOf(models: readonly LoadedModel[]): number {
  return models.reduce((sum, { bytes }) => sum + bytes, 0);
}
