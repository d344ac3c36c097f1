/** One replica's reference to a model in a shared daemon, as an instance. */
import { join } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { Activity } from "../../../src/macos/living-process.ts";
import type { Clock } from "../../../src/util/ports.ts";
import type {
  ExitRecord,
  Instance,
  InstanceContext,
  InstanceState,
  InstanceTarget,
  StopMode,
} from "../instance.ts";
import type { Daemon } from "./daemon.ts";
import type { DaemonApi, DaemonPorts, DaemonUser, ModelReference } from "./spec.ts";

const RETRY_MS = 100;
/** Longer, because each unload that a daemon refuses costs a request and a search of its files. */
const OVERDUE_RETRY_MS = 1_000;
/**
 * A daemon that answers but does not unload a model in time is kept for the other replicas for this long. Until the memory is
 * free, no other engine of the host is evicted.
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
  /** Set once the daemon no longer has the model for this replica. */
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
    const ending = this.#ending;
    if (daemon.at === "ended") return { at: "ended", exit: daemon.exit, ending };
    if (daemon.at === "starting") return { at: "starting", ending };
    if (!this.#isLoaded) return { at: "starting", isLoading: true, ending };
    return { at: "running", pid: daemon.pid, ending };
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

  /** Retries until the daemon, which may still be starting, has loaded or refused the model, or this reference ends. */
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

  /** Checks that the model of an earlier agent is still loaded. A daemon that does not answer counts as having it: probes decide. */
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
   * A daemon that does not unload the model is hung and is killed, which ends all references to it. If another replica still
   * uses the daemon, the unload is retried for some time first.
   */
  killNow(): void {
    if (this.#ending === "killing") return;
    const isFirst = this.#ending === undefined;
    this.#ending = "killing";
    if (isFirst) this.#unload();
  }

  /** The figure that the daemon reports, because its processes do not show how much memory each model uses. */
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
          // A failed unload proves nothing about other models: their own probes do.
          const now = this.#clock.monotonicMs();
          this.#overdueSince ??= now;
          const isStuck = now - this.#overdueSince >= MAX_STUCK_MS;
          if (!isStuck && this.#isNeededByOthers())
            return this.#retry(() => this.#unload(), OVERDUE_RETRY_MS);
          this.#process?.killNow();
          return;
        }
        // A found daemon is never killed: it keeps the model, which is no longer counted for this replica.
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
      // Set within the turn, because the next turn must not count this reference.
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
