/** One replica's reference to a model in a shared daemon, as an instance. */
import { join } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { Activity } from "../../../src/macos/living-process.ts";
import type { Clock } from "../../../src/util/ports.ts";
import type {
  StopMode,
  ExitRecord,
  Instance,
  InstanceContext,
  InstanceState,
  InstanceTarget,
} from "../instance.ts";
import type { Daemon } from "./daemon.ts";
import type { DaemonApi, DaemonPorts, DaemonUser, ModelReference } from "./spec.ts";

const RETRY_MS = 100;
/** Each unload of a daemon that refuses it is a request and a search of its files. */
const OVERDUE_RETRY_MS = 1_000;
/**
 * How long others keep a daemon alive that answers and does not unload a model whose time is up. Until the memory is free
 * nothing else of the host is evicted.
 */
const MAX_STUCK_MS = 15_000;

export class DaemonReference implements Instance, DaemonUser {
  readonly target: InstanceTarget;
  readonly handle: DaemonUser["handle"];
  readonly logPath: string;
  readonly #daemon: Daemon;
  readonly #process: Instance | undefined;
  readonly #place: InstanceContext;
  readonly #clock: Clock;
  readonly #prepare: ModelReference["prepare"];
  readonly #api: DaemonApi;
  #isLoaded = false;
  #ending: StopMode | undefined;
  #deadline = Number.POSITIVE_INFINITY;
  /** Set once the daemon no longer has the model on this replica's account. */
  #exit: ExitRecord | "unknown" | undefined;
  #cancel: (() => void) | undefined;
  #overdueSince: number | undefined;
  readonly #loading = new AbortController();

  constructor(
    daemon: Daemon,
    process: Instance | undefined,
    place: InstanceContext,
    handle: DaemonReference["handle"],
    { clock, folder }: DaemonPorts,
    prepare?: ModelReference["prepare"],
  ) {
    this.#daemon = daemon;
    this.#process = process;
    this.#place = place;
    this.#clock = clock;
    this.#prepare = prepare;
    this.handle = handle;
    this.target = { ...(process?.target ?? { host: "127.0.0.1", port: 0 }), modelAlias: handle.model };
    this.#api = daemon.spec.api(this.target);
    this.logPath = join(folder, daemon.spec.name, "log");
    daemon.references.add(this);
  }

  state(): InstanceState {
    if (this.#exit !== undefined) return { at: "gone", exit: this.#exit };
    const daemon = this.#process?.state() ?? { at: "gone", exit: "unknown" };
    if (daemon.at === "gone") return daemon;
    const ending = this.#ending === undefined ? {} : { ending: this.#ending };
    if (daemon.at === "ended") return { at: "ended", exit: daemon.exit, ...ending };
    if (daemon.at === "starting") return { at: "starting", ...ending };
    if (!this.#isLoaded) return { at: "starting", isLoading: true, ...ending };
    return { at: "running", ...ending, ...(daemon.pid === undefined ? {} : { pid: daemon.pid }) };
  }

  uses(process: Instance | undefined): boolean {
    return this.#process === process;
  }

  hasEnded(): boolean {
    return this.#exit !== undefined;
  }

  changed(): void {
    this.#place.onChange();
  }

  /** Repeated until the daemon, which may only be starting, has the model or refuses it, or this reference ends. */
  load(): void {
    if (this.#isLoaded || this.#ending !== undefined || this.state().at !== "starting") return;
    const { signal } = this.#loading;
    const work = async (): Promise<void> => {
      if (signal.aborted) return;
      await this.#api.loaded();
      await this.#prepare?.(this.target, signal);
      await this.#api.load(this.handle.model, signal);
      this.#isLoaded = true;
    };
    this.#daemon.inTurn(this.handle.model, work).then(
      () => this.#place.onChange(),
      (error: unknown) => {
        if (this.#ending !== undefined) return;
        if (error instanceof MetalbridgeError) this.#refused(error);
        else this.#retry(() => this.load());
      },
    );
  }

  /** Whether an earlier agent's reference still holds. A daemon that does not answer counts as holding it: probes decide. */
  async check(): Promise<void> {
    if (this.state().at === "gone") return;
    this.#isLoaded = await this.#api.loaded().then(
      (loaded) => loaded.some(({ model }) => model === this.handle.model),
      () => true,
    );
    if (!this.#isLoaded) this.#exit = "unknown";
  }

  stopBy(deadlineMs: number): void {
    if (this.#ending === "killing" || deadlineMs >= this.#deadline) return;
    const isFirst = this.#ending === undefined;
    this.#ending = "stopping";
    this.#deadline = deadlineMs;
    if (isFirst) this.#unload();
  }

  /**
   * A daemon that unloads none of the models that are to go is hung: it is killed, and each of them sees that as its own end.
   * While another replica still expects its model there, the unload is repeated for a while before that.
   */
  endNow(): void {
    if (this.#ending === "killing") return;
    const isFirst = this.#ending === undefined;
    this.#ending = "killing";
    if (isFirst) this.#unload();
  }

  /** By the daemon's own account: its processes do not show which model is whose. */
  async footprintBytes(): Promise<number | undefined> {
    const loaded = await this.#api.loaded().catch(() => []);
    return loaded.find(({ model }) => model === this.handle.model)?.bytes;
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
    this.#daemon.references.delete(this);
    if (this.state().at === "gone") this.#daemon.stopIfUnused();
  }

  #refused(error: MetalbridgeError): void {
    if (this.state().at === "gone") return;
    const { code, message } = error;
    this.#endWith({ because: { code, message } }).then(
      () => this.#place.onChange(),
      () => this.#retry(() => this.#refused(error)),
    );
  }

  #unload(): void {
    if (this.state().at === "gone") return;
    this.#loading.abort();
    this.#endWith({ code: 0 }).then(
      () => this.#leave(),
      () => {
        if (!this.isOverdue()) return this.#retry(() => this.#unload());
        if (this.#daemon.spec.found === undefined) {
          // One that failed says nothing about the models of others: their own probes do.
          const now = this.#clock.monotonicMs();
          this.#overdueSince ??= now;
          const isStuck = now - this.#overdueSince >= MAX_STUCK_MS;
          if (!isStuck && this.#isNeededByOthers())
            return this.#retry(() => this.#unload(), OVERDUE_RETRY_MS);
          this.#process?.endNow();
          return;
        }
        // What others run stays as it is, with the model in it: it counts as theirs from now on.
        this.#exit = "unknown";
        this.#leave();
      },
    );
  }

  isOverdue(): boolean {
    return this.#ending === "killing" || this.#clock.monotonicMs() >= this.#deadline;
  }

  #others(): readonly DaemonUser[] {
    return [...this.#daemon.references].filter((reference) => reference !== this);
  }

  #isNeededByOthers(): boolean {
    return this.#others().some(
      (other) => other.uses(this.#process) && !other.hasEnded() && !other.isOverdue(),
    );
  }

  /** Unloads the model unless another replica has it too, or the daemon does not run. */
  #endWith(exit: ExitRecord): Promise<void> {
    return this.#daemon.inTurn(this.handle.model, async () => {
      const isShared = this.#others().some(
        (other) => !other.hasEnded() && other.handle.model === this.handle.model,
      );
      if (!isShared && this.#process?.state().at === "running") await this.#api.unload(this.handle.model);
      // Here, not after the turn: the next in line must not count this reference any more.
      this.#exit = exit;
    });
  }

  #leave(): void {
    this.#daemon.references.delete(this);
    this.#daemon.stopIfUnused();
    this.#place.onChange();
  }

  #retry(again: () => void, inMs = RETRY_MS): void {
    this.#cancel?.();
    this.#cancel = this.#clock.after(inMs, again);
  }
}
