/** The agent's side of the gate: one process per host that outlives the agent, configured by a file and queried over a socket. */
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ifExists, writeFileAtomic } from "../../src/util/atomic-file.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { createSerializer } from "../../src/util/serializer.ts";
import type { Instance } from "../instances/instance.ts";
import type { ProcessInstances } from "../instances/process/process-instance.ts";
import { socketPathFor } from "../state-dir/socket-path.ts";
import { addCounters, createCounters, type RouteCounters } from "./counters.ts";
import type { GateStatus } from "./gate-process.ts";
import type { HandoverOrder } from "./handover.ts";
import { type GateRoute, parseRoutes, renderRoutes } from "./routes.ts";

const ANSWER_MS = 5_000;
/** Longer than the running gate waits for the next one. */
const HANDOVER_MS = 30_000;
/** The gate is replaced if it is silent for this long after its first missing answer: its streams have stopped too. */
const HUNG_MS = 10_000;
const STARTING_RETRY_MS = 20;
/** Maximum restart delay. A gate that exits sooner than this after its start is restarted with a growing delay. */
const MAX_RESTART_MS = 10_000;
/** A placeholder: the agent reaches a gate by its socket alone. */
const NO_TARGET = { host: "127.0.0.1", port: 0 };

const ROUTES_FILE = "routes.json";
/** These flags save memory, which the models need: 24 MB under 64 streams instead of 36. */
const NODE_FLAGS = [
  "--single-threaded-gc",
  "--optimize-for-size",
  "--v8-pool-size=1",
  "--max-semi-space-size=2",
];
/** For glibc: one arena, and the memory of large bodies is returned to the system. */
const MALLOC = { MALLOC_ARENA_MAX: "1", MALLOC_MMAP_THRESHOLD_: "131072" };
/** Extra time after the timeout: in a process that was paused, the timer fires before the answer that has arrived is read. */
const READ_FIRST_MS = 250;

export interface GatePorts {
  readonly processes: ProcessInstances;
  readonly clock: Clock;
  readonly log: Log;
  /** The gate's own folder in the state folder. */
  readonly folder: string;
  /** For a socket whose path in the folder would be too long. */
  readonly tempDir: string;
  readonly env: Readonly<Record<string, string>>;
  /** A running gate of another release hands over to one of this release. */
  readonly release: string;
  /** Absent: 10 s. */
  readonly hungMs?: number;
  /** Timeout of a handover. Absent: 30 s. */
  readonly handoverMs?: number;
  /** The gate's program. Absent: that of this installation. */
  readonly program?: string;
}

export interface Gate {
  /** Replaces all routes. Returns the status of the gate that has applied them; undefined while it is being restarted. */
  readonly set: (routes: readonly GateRoute[]) => Promise<GateStatus | undefined>;
  /** Rejects new requests on a route; resolves once no request is in flight there, not even in an earlier gate. */
  readonly drain: (id: string) => Promise<void>;
  /** Requests in flight on a route; unknown if a running gate does not answer. */
  readonly inFlight: (id: string) => Promise<number | "unknown">;
  /** By route, for all running gates together. */
  readonly metrics: () => Promise<Readonly<Record<string, RouteCounters>>>;
  readonly status: () => Promise<GateStatus | undefined>;
  /** True while a gate that is leaving has a successor, which listens. */
  readonly isHandingOver: () => boolean;
  /** Stops the gate, which finishes requests in flight until the deadline (monotonic ms). Resolves once it has exited. */
  readonly stopBy: (deadlineMs: number) => Promise<void>;
  /** Stops watching; the gate runs on. */
  readonly close: () => void;
}

/**
 * Adopts the gates of an earlier agent, of which the newest is the current one, and starts one if none runs. Without
 * `routes` they stay unchanged. `onOpening` gets the gate before an upgrade, which takes seconds: it can be queried meanwhile.
 */
export async function openGate(
  ports: GatePorts,
  routes?: readonly GateRoute[],
  onOpening?: (gate: Pick<Gate, "status" | "isHandingOver">) => void,
): Promise<Gate> {
  await mkdir(ports.folder, { recursive: true, mode: 0o700 });
  const gates = new Gates(ports);
  await gates.write(routes ?? (await readRoutes(ports.folder)));
  onOpening?.(gates);
  await gates.open();
  return gates;
}

/** One gate process. There are several while earlier ones finish their last requests. */
interface Generation {
  readonly number: number;
  readonly socket: string;
  readonly instance: Instance;
  readonly startedAt: number;
  silentSince?: number | undefined;
}

class Gates implements Gate {
  readonly #ports: GatePorts;
  readonly #file: string;
  readonly #running: Generation[] = [];
  readonly #onExit = new Map<number, () => void>();
  readonly #inTurn = createSerializer();
  #routes: readonly GateRoute[] = [];
  #restartMs = 0;
  #isClosed = false;
  #isHandingOver = false;

  constructor(ports: GatePorts) {
    this.#ports = ports;
    this.#file = join(ports.folder, ROUTES_FILE);
  }

  open(): Promise<void> {
    return this.#inTurn(async () => {
      for (const number of (await this.#numbers()).sort((a, b) => a - b)) await this.#adopt(number);
      const current = this.#running.at(-1);
      const status = current === undefined ? undefined : await this.#waitForAnswer(current);
      if (current !== undefined && status === undefined) await this.#kill(current);
      // A gate that is leaving has lost its successor: it finishes its requests next to the new one.
      if (status === undefined || status.isLeaving) await this.#start();
      else if (status.release !== this.#ports.release) await this.#upgrade();
    });
  }

  set(routes: readonly GateRoute[]): Promise<GateStatus | undefined> {
    return this.#inTurn(async () => {
      await this.write(routes);
      // The last start of a gate failed.
      if (this.#running.length === 0 && !this.#isClosed) await this.#start();
      const statuses = await Promise.all(this.#running.map((one) => this.#statusOf(one, "POST", "reload")));
      return statuses.at(-1);
    });
  }

  async write(routes: readonly GateRoute[]): Promise<void> {
    await writeFileAtomic(this.#file, renderRoutes(routes));
    this.#routes = routes;
  }

  async drain(id: string): Promise<void> {
    await this.set(this.#routes.map((route) => (route.id === id ? { ...route, state: "draining" } : route)));
    const drained = (one: Generation) => callGate(one.socket, "GET", `drained/${encodeURIComponent(id)}`);
    // A gate that does not answer has no requests left: it has exited, or is about to.
    await Promise.all(this.#running.map((one) => drained(one).catch(() => undefined)));
  }

  async inFlight(id: string): Promise<number | "unknown"> {
    const counts = this.#running.map(async (one) => {
      const status = await this.#statusOf(one);
      if (status !== undefined) return status.routes[id]?.inFlight ?? (status.isLeaving ? 0 : Number.NaN);
      return one.instance.state().at === "gone" ? 0 : Number.NaN;
    });
    const sum = (await Promise.all(counts)).reduce((all, one) => all + one, 0);
    return Number.isNaN(sum) ? "unknown" : sum;
  }

  async metrics(): Promise<Readonly<Record<string, RouteCounters>>> {
    const sums: Record<string, RouteCounters> = {};
    for (const { socket } of this.#running) {
      const answer = callGate<Readonly<Record<string, RouteCounters>>>(socket, "GET", "metrics", ANSWER_MS);
      for (const [id, more] of Object.entries(await answer.catch(() => ({})))) {
        sums[id] ??= createCounters();
        addCounters(sums[id], more);
      }
    }
    return sums;
  }

  async status(): Promise<GateStatus | undefined> {
    const current = this.#running.at(-1);
    if (current === undefined) return undefined;
    const status = await this.#statusOf(current);
    if (status === undefined) this.#endHung(current);
    else current.silentSince = undefined;
    if (status?.isLeaving === true) this.#replaceTerminated(current);
    return status;
  }

  isHandingOver(): boolean {
    return this.#isHandingOver;
  }

  /** Starts another gate after another program has terminated this one, which finishes its requests without a time limit. */
  #replaceTerminated(leaving: Generation): void {
    const { log } = this.#ports;
    this.#inTurn(async () => {
      if (this.#isClosed || this.#running.at(-1) !== leaving) return;
      log.warn({ gate: leaving.number }, "the gate was terminated by another program; starting another");
      await this.#start();
    }).catch((err: unknown) => log.error({ err }, "the gate cannot be started"));
  }

  /** Undefined if the gate was silent for so many milliseconds that it counts as hung. */
  async #waitForAnswer(one: Generation): Promise<GateStatus | undefined> {
    const { clock, hungMs = HUNG_MS } = this.#ports;
    const until = clock.monotonicMs() + ANSWER_MS + hungMs;
    let status = await this.#statusOf(one, "POST", "reload");
    while (status === undefined && one.instance.state().at !== "gone" && clock.monotonicMs() < until)
      status = await this.#statusOf(one);
    return status;
  }

  /** Another gate is started once this one has exited. */
  #endHung(one: Generation): void {
    const { clock, log, hungMs = HUNG_MS } = this.#ports;
    const state = one.instance.state();
    if (this.#isClosed || state.at === "gone" || state.ending !== undefined) return;
    const now = clock.monotonicMs();
    one.silentSince ??= now;
    if (now - one.silentSince < hungMs) return;
    log.error({ gate: one.number }, "the gate does not answer and is killed");
    one.instance.killNow();
  }

  async stopBy(deadlineMs: number): Promise<void> {
    this.#isClosed = true;
    const exits = this.#running.map(({ number }) => this.#exitOf(number));
    for (const { instance } of this.#running) instance.stopBy(deadlineMs);
    for (const { number } of [...this.#running]) this.#onChange(number);
    await Promise.all(exits);
  }

  close(): void {
    this.#isClosed = true;
    for (const { instance } of this.#running) instance.close();
  }

  async #start(): Promise<void> {
    const { number, place, command, socket } = await this.#next();
    const instance = await this.#ports.processes.open(place, { ...command, target: NO_TARGET });
    const generation = this.#add(number, socket, instance);
    if ((await this.#waitForAnswer(generation)) === undefined)
      this.#ports.log.error({ gate: number }, "the gate does not respond; see its log");
  }

  async #upgrade(): Promise<void> {
    const current = this.#running.at(-1);
    const { number, place, command, socket } = await this.#next();
    const { log, processes, release, handoverMs = HANDOVER_MS } = this.#ports;
    if (current === undefined) return;
    const order: HandoverOrder = { dir: place.dir, ...command };
    this.#isHandingOver = true;
    try {
      const failure = await callGate(current.socket, "POST", "handover", handoverMs, order).then(
        () => undefined,
        (err: unknown) => err,
      );
      const instance = await processes.adopt(place, NO_TARGET);
      const hasTakenOver = failure === undefined || (await this.#hasTakenOver(current, instance));
      if (hasTakenOver && instance !== undefined) {
        this.#add(number, socket, instance);
        log.info({ gate: number, release }, "gate upgraded");
        return;
      }
      instance?.killNow();
      instance?.close();
      log.error({ err: failure, gate: number }, "the gate cannot be upgraded; the old one serves on");
    } finally {
      this.#isHandingOver = false;
    }
  }

  /** Waits for the result of a handover without an answer, which the states of the old gate and of the next one show. */
  async #hasTakenOver(old: Generation, next: Instance | undefined): Promise<boolean> {
    const { clock } = this.#ports;
    const until = clock.monotonicMs() + HANDOVER_MS;
    while (next !== undefined && next.state().at !== "gone" && clock.monotonicMs() < until) {
      if (old.instance.state().at === "gone") return true;
      const status = await this.#statusOf(old);
      if (status?.isLeaving === true) return true;
      await new Promise<void>((resolve) => clock.after(STARTING_RETRY_MS, resolve));
    }
    return false;
  }

  async #next() {
    const { folder, env, release, program = entryPath() } = this.#ports;
    const numbers = await this.#numbers();
    const running = this.#running.map((one) => one.number);
    for (const number of numbers.filter((one) => !running.includes(one)))
      await rm(join(folder, String(number)), { recursive: true, force: true });
    const number = Math.max(0, ...numbers) + 1;
    const socket = await this.#socketOf(number);
    const argv = [process.execPath, ...NODE_FLAGS, program, this.#file, socket, release];
    const command = { argv, env: { ...MALLOC, ...env }, record: { argv, release } };
    return { number, socket, command, place: this.#placeOf(number) };
  }

  /** The folders of gates, in any order. */
  async #numbers(): Promise<number[]> {
    return (await readdir(this.#ports.folder)).filter((name) => /^\d+$/.test(name)).map(Number);
  }

  async #adopt(number: number): Promise<void> {
    const instance = await this.#ports.processes.adopt(this.#placeOf(number), NO_TARGET);
    if (instance === undefined || instance.state().at === "gone") instance?.close();
    else this.#add(number, await this.#socketOf(number), instance);
  }

  #add(number: number, socket: string, instance: Instance): Generation {
    const generation = { number, socket, instance, startedAt: this.#ports.clock.monotonicMs() };
    this.#running.push(generation);
    this.#onChange(number);
    return generation;
  }

  async #kill({ number, instance }: Generation): Promise<void> {
    // A gate that has just exited reports no further change.
    if (instance.state().at === "gone") return;
    this.#ports.log.error({ gate: number }, "the gate does not answer and is killed");
    const exit = this.#exitOf(number);
    instance.killNow();
    await exit;
  }

  #exitOf(number: number): Promise<void> {
    return new Promise((resolve) => this.#onExit.set(number, resolve));
  }

  #onChange(number: number): void {
    const index = this.#running.findIndex((one) => one.number === number);
    const generation = this.#running[index];
    if (generation === undefined || generation.instance.state().at !== "gone") return;
    const wasCurrent = index === this.#running.length - 1;
    this.#running.splice(index, 1);
    generation.instance.close();
    const onExit = this.#onExit.get(number);
    this.#onExit.delete(number);
    if (onExit !== undefined) onExit();
    else if (wasCurrent) this.#restart(generation);
  }

  #restart({ number, startedAt, instance }: Generation): void {
    const { clock, log } = this.#ports;
    const isEarly = clock.monotonicMs() - startedAt < MAX_RESTART_MS;
    const inMs = isEarly ? this.#restartMs : 0;
    this.#restartMs = isEarly ? nextRestartMs(this.#restartMs) : 0;
    log.error({ gate: number, state: instance.state(), inMs }, "the gate has exited; starting another");
    this.#startAfter(number, inMs);
  }

  #startAfter(number: number, inMs: number): void {
    const { clock, log } = this.#ports;
    clock.after(inMs, () => {
      this.#inTurn(async () => {
        const isReplaced = this.#running.some((one) => one.number > number);
        if (!this.#isClosed && !isReplaced) await this.#start();
      }).catch((err) => {
        this.#restartMs = nextRestartMs(this.#restartMs);
        log.error({ err, inMs: this.#restartMs }, "the gate cannot be started; retrying");
        this.#startAfter(number, this.#restartMs);
      });
    });
  }

  #placeOf(number: number) {
    const { folder, log } = this.#ports;
    const onChange = () => this.#onChange(number);
    return { dir: join(folder, String(number)), log: log.child({ gate: number }), onChange };
  }

  #socketOf(number: number): Promise<string> {
    return socketPathFor(join(this.#ports.folder, String(number), "sock"), this.#ports.tempDir);
  }

  /** Undefined if the gate does not answer in time or has exited. Retries while the gate is starting. */
  async #statusOf(one: Generation, method = "GET", path = "status"): Promise<GateStatus | undefined> {
    const { clock } = this.#ports;
    const until = clock.monotonicMs() + ANSWER_MS;
    while (clock.monotonicMs() < until && one.instance.state().at !== "gone") {
      const status = await callGate<GateStatus>(one.socket, method, path, ANSWER_MS).catch(() => undefined);
      if (status !== undefined) return status;
      await new Promise<void>((resolve) => clock.after(STARTING_RETRY_MS, resolve));
    }
    return undefined;
  }
}

function nextRestartMs(before: number): number {
  return Math.min(MAX_RESTART_MS, Math.max(250, before * 2));
}

/** The routes of the file in the gate's folder; none without a file. Rejects if the file cannot be read. */
export async function readRoutes(folder: string): Promise<readonly GateRoute[]> {
  const text = await ifExists(readFile(join(folder, ROUTES_FILE), "utf8"));
  return text === undefined ? [] : parseRoutes(text);
}

/** The gate's program: next to this file in the sources, next to the bundle in a release. */
function entryPath(): string {
  const { url } = import.meta;
  const path = url.endsWith(".ts") ? "./main.ts" : url.includes("/chunks/") ? "../gate.cjs" : "./gate.cjs";
  return fileURLToPath(new URL(path, url));
}

/** A request of the agent to a gate, over its socket. Rejects if there is no answer, or the answer is not a success. Without `timeoutMs` the call waits until the gate exits. */
function callGate<T>(
  socketPath: string,
  method: string,
  path: string,
  timeoutMs?: number,
  body?: object,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const call = httpRequest({ socketPath, method, path: `/${path}`, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      response.once("error", reject);
      response.once("end", () => {
        if (response.statusCode === 200) resolve(JSON.parse(text));
        else reject(new Error(`the gate answers ${response.statusCode}: ${text.slice(0, 500)}`));
      });
    });
    call.once("error", reject);
    if (timeoutMs !== undefined) {
      let timer = setTimeout(() => {
        timer = setTimeout(() => call.destroy(new Error("the gate does not answer in time")), READ_FIRST_MS);
      }, timeoutMs);
      call.once("close", () => clearTimeout(timer));
    }
    call.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
