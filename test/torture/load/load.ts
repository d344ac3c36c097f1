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
  steady: 2,
  elastic: 2,
  brief: 1.5,
  podded: 1.5,
  mixed: 1.5,
};
/** Beside those, by the gateway. */
const GATEWAY_PACE = 0.75;

/** Where the gateway answers, and a key of it. */
export interface LoadGateway {
  readonly url: string;
  readonly key: string;
}

export function startLoad(recorder: Recorder, station: Station, seed: number, gateway: LoadGateway): Load {
  const [program = "nsenter", ...prefix] = station.inside;
  const child = spawn(program, [...prefix, process.execPath, WORKER, String(seed)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  createInterface({ input: child.stdout }).on("line", (line) => note(recorder, JSON.parse(line) as Result));
  child.stdin.on("error", () => {});
  const targets = new Map<ServiceName, Target>();
  let factor = 1;
  const tell = (): void => {
    const { url, key } = gateway;
    const both = [...targets.values()].flatMap((target): readonly Target[] => [
      target,
      { service: target.service, url, key, requestsPerSecond: GATEWAY_PACE },
    ]);
    const hurried = both.map((target) => ({
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
  const { startedAt, endedAt, firstByteAt, failure, service, isByGateway, ...rest } = result;
  if (isByGateway) {
    const { id, status } = rest;
    const times = { startedAt: recorder.fromEpoch(startedAt) };
    recorder.note(
      { type: "gatewayRequest", id, service: service as ServiceName, failure, status, ...times },
      recorder.fromEpoch(endedAt),
    );
    return;
  }
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
