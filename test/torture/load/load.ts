/** Starts the load in the clients' namespace, sends it its orders, and records its results. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { createInterface } from "node:readline";
import type { Station } from "../../bed/network.ts";
import type { Recorder } from "../observe/recorder.ts";
import type { ServiceName } from "../plan/catalog.ts";
import type { Orders, Result, Target } from "./protocol.ts";

export interface Load {
  readonly begin: (service: ServiceName, url: string) => void;
  /** `factor` times the usual pace from now on. */
  readonly hurry: (factor: number) => void;
  /** No new requests from now on; those in flight continue. The result undoes it. */
  readonly pause: (service: ServiceName) => () => void;
  readonly stop: () => Promise<void>;
}

const WORKER = path.join(import.meta.dirname, "worker.ts");

/** Requests per second of each service: enough to be in flight at every fault, little enough for two cores. */
const PACE: Readonly<Record<ServiceName, number>> = {
  steady: 3,
  elastic: 3,
  brief: 2,
  podded: 2,
  mixed: 2,
};

export function startLoad(recorder: Recorder, station: Station, seed: number): Load {
  const [program = "nsenter", ...prefix] = station.inside;
  const child = spawn(program, [...prefix, process.execPath, WORKER, String(seed)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  createInterface({ input: child.stdout }).on("line", (line) => note(recorder, JSON.parse(line) as Result));
  child.stdin.on("error", () => {});
  const targets = new Map<ServiceName, Target>();
  let factor = 1;
  const tell = (): void => {
    const hurried = [...targets.values()].map((target) => ({
      ...target,
      requestsPerSecond: target.requestsPerSecond * factor,
    }));
    const orders: Orders = { targets: hurried };
    child.stdin.write(`${JSON.stringify(orders)}\n`);
  };
  const isOn = (service: ServiceName, on: boolean): void => {
    tell();
    recorder.note({ type: "load", service, isOn: on });
  };
  const begin: Load["begin"] = (service, url) => {
    targets.set(service, { service, url, requestsPerSecond: PACE[service] });
    isOn(service, true);
  };
  return {
    begin,
    hurry: (next) => {
      factor = next;
      tell();
    },
    pause: (service) => {
      const target = targets.get(service);
      if (target === undefined) return () => {};
      targets.delete(service);
      isOn(service, false);
      return () => begin(service, target.url);
    },
    stop: () => stop(child),
  };
}

function note(recorder: Recorder, result: Result): void {
  const { startedAt, endedAt, firstByteAt, failure, service, ...rest } = result;
  recorder.note(
    {
      type: "request",
      ...rest,
      service: service as ServiceName,
      failure,
      outcome: failure === "" ? "answered" : "failed",
      startedAt: recorder.fromEpoch(startedAt),
      ...(firstByteAt === undefined ? {} : { firstByteAt: recorder.fromEpoch(firstByteAt) }),
    },
    recorder.fromEpoch(endedAt),
  );
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  await ended;
}
