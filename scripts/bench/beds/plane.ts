/** A real control plane in a folder of its own, with watches of what the scenarios read. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { readPartsConfig } from "../../../local/control-plane/config.ts";
import { type OpenOptions, openControlPlane } from "../../../local/control-plane/open.ts";
import { findClusterParts } from "../../../local/control-plane/parts.ts";
import type { ControlPlane } from "../../../local/control-plane/start.ts";
import { type TinyModelOptions, writeTinyModel } from "../../../local/demo/tiny-model.ts";
import { createTerminalLog } from "../../../local/terminal-log.ts";
import { customResourceDefinitions } from "../../../src/api/crd/definitions.ts";
import { LABEL_SERVICE } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../../src/api/kinds.ts";
import type { Model } from "../../../src/api/model.ts";
import { keyOf } from "../../../src/api/names.ts";
import { connect, type KubeConnection } from "../../../src/kube/client/connect.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import { ENDPOINT_SLICES, SERVICES } from "../../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { Kind, KubeClient, KubeObject, Reflector } from "../../../src/kube/types.ts";
import { startReflector } from "../../../src/kube/watch/reflector.ts";
import { model, serviceAnywhere } from "../../../test/bed/manifests.ts";
import { must } from "../../../test/bed/must.ts";
import { type Part, startPart } from "../../../test/bed/part.ts";
import { installRelease } from "../../../test/bed/release.ts";

export interface Plane extends AsyncDisposable {
  readonly dir: string;
  /** The program of a separate installation. */
  readonly program: string;
  readonly controlPlane: ControlPlane;
  readonly client: KubeClient;
  readonly connection: KubeConnection;
  readonly hosts: Reflector<Host>;
  readonly replicas: Reflector<InferenceReplica>;
  readonly slices: Reflector<EndpointSlice>;
  /** Fires on every event of what is watched. */
  readonly changed: Signal;
  /** Watches one more kind in the namespace of the bench. */
  readonly watch: <T extends KubeObject>(kind: Kind<T>) => Reflector<T>;
  /** Writes a tiny model into the folder and creates a Model, by default the one of all services; resolves when it is available. */
  readonly createModel: (folder: string, options?: TinyModelOptions, name?: string) => Promise<void>;
  /** Creates a service of the one Model; resolves with the wall time (ms) at which the API server had accepted it. */
  readonly createService: (name: string, spec?: object) => Promise<number>;
  /** The address that a client in the cluster would use. */
  readonly urlOf: (service: string) => Promise<string>;
  readonly replicasOf: (service: string) => readonly InferenceReplica[];
  /** Until so many replicas of the service have a ready endpoint, and no other exists. */
  readonly untilServing: (service: string, count?: number) => Promise<void>;
  /** Starts a part of the installation with the administrator's kubeconfig. */
  readonly start: (verb: "controller" | "server", ...args: readonly string[]) => Part;
  /** Disposes the resource before the control plane ends, the newest first. */
  readonly use: <T extends AsyncDisposable>(resource: T) => T;
  readonly atEnd: (cleanup: () => Promise<unknown>) => void;
}

/** As shells count a process that SIGINT ended. */
const INTERRUPTED = 130;
/** A fleet is created on a machine that has not many more cores than one of its hosts. */
export const REQUEST_TIMEOUT_MS = 30_000;
export const NAMESPACE = "default";
const BENCH_VERSION = "0.1.0-bench.1";
/** The Model of all services that name no other. */
const MODEL = "bench";
export const log = createTerminalLog((line) => process.stderr.write(line));

/** Our kinds are installed; nothing else runs. Without an address the API server listens on loopback. */
export async function openPlane(
  options: Pick<OpenOptions, "bindAddress" | "scheduler" | "fsync"> = {},
): Promise<Plane> {
  const cleanups: (() => Promise<unknown>)[] = [];
  const atEnd: Plane["atEnd"] = (cleanup) => cleanups.push(cleanup);
  const dispose = async () => {
    for (const cleanup of cleanups.splice(0).reverse())
      await cleanup().catch((error: unknown) => {
        log.error({ err: error }, "the bench did not clean up");
        process.exitCode = 1;
      });
  };
  const use: Plane["use"] = (resource) => {
    atEnd(async () => resource[Symbol.asyncDispose]());
    return resource;
  };
  endWith(dispose, atEnd);
  try {
    const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-bench-"));
    atEnd(() => rm(dir, { recursive: true, force: true }));
    const plane = await openControlPlane({
      dir,
      parts: findClusterParts(readPartsConfig()),
      crds: customResourceDefinitions(),
      log,
      ...options,
      onStopOrder: async () => {},
    });
    atEnd(plane.close);
    const { controlPlane } = plane;
    const { kubeconfig } = controlPlane;
    const connection = await connect({ kubeconfigPath: kubeconfig, userAgent: "metalbridge-bench" });
    const ending = new AbortController();
    atEnd(async () => {
      ending.abort();
      connection.close();
    });
    const { program } = installRelease(path.join(dir, "release"), BENCH_VERSION);
    return {
      dir,
      program,
      controlPlane,
      connection,
      ...watchPlane(connection, ending.signal),
      start: (verb, ...args) =>
        use(startPart([verb, "--kubeconfig", kubeconfig, ...args], path.join(dir, `${verb}.log`), program)),
      use,
      atEnd,
      [Symbol.asyncDispose]: dispose,
    };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** An interrupted bench leaves no engine behind. */
function endWith(dispose: () => Promise<void>, atEnd: Plane["atEnd"]): void {
  const interrupt = (): void => void dispose().then(() => process.exit(INTERRUPTED));
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, interrupt);
    atEnd(async () => process.off(signal, interrupt));
  }
}

function watchPlane(connection: KubeConnection, signal: AbortSignal) {
  const client = createClient(connection, { timeoutMs: REQUEST_TIMEOUT_MS });
  const changed = createSignal();
  const shared = { connection, clock: systemClock, signal, log, onChange: changed.fire };
  const watch: Plane["watch"] = (kind) => startReflector({ ...shared, namespace: NAMESPACE, kind });
  const models = watch(MODELS);
  const replicas = watch(INFERENCE_REPLICAS);
  const slices = watch(ENDPOINT_SLICES);
  const replicasOf = (service: string) =>
    replicas.list().filter(({ metadata }) => metadata.labels?.[LABEL_SERVICE] === service);
  return {
    client,
    changed,
    watch,
    hosts: startReflector({ ...shared, kind: HOSTS }),
    replicas,
    slices,
    replicasOf,
    createModel: async (folder: string, options: TinyModelOptions = {}, name = MODEL) => {
      const source = path.join(folder, `${name}.gguf`);
      await writeTinyModel(source, options);
      must(await client.create(MODELS, model(name, source) as Model));
      // A file of a host is Pending until a service has served it: that the controller has judged it is enough.
      await changed.until("a Model that the controller has judged", () => {
        const found = models.list().find(({ metadata }) => metadata.name === name);
        return found?.status?.conditions?.some(({ type }) => type === "Available") || undefined;
      });
    },
    createService: async (name: string, spec: object = {}) => {
      const own = { modelRef: MODEL, extraArgs: undefined, rollout: { drainSeconds: 1 } };
      must(
        await client.create(
          INFERENCE_SERVICES,
          serviceAnywhere(name, { ...own, ...spec }) as InferenceService,
        ),
      );
      return Date.now();
    },
    urlOf: async (service: string) => {
      const found = must(await client.get(SERVICES, { name: service, namespace: NAMESPACE }));
      return `http://${found.spec?.clusterIP}:8080`;
    },
    untilServing: async (service: string, count = 1) => {
      await changed.until(`${count} serving replicas of ${service}`, () => {
        const serving = replicasOf(service).filter(({ metadata }) =>
          isSliceReady(slices.get(keyOf(metadata))),
        );
        return serving.length === count || undefined;
      });
    },
  };
}

export function isSliceReady(slice: EndpointSlice | undefined): boolean {
  return slice?.endpoints?.some(({ conditions }) => conditions?.ready === true) === true;
}

/** Waiting for a condition that only events can make true. */
interface Signal {
  /** `key` is that of the object that has changed. */
  readonly fire: (key?: string) => void;
  /** Called at each event, until the result is called. */
  readonly listen: (listener: (key?: string) => void) => () => void;
  /** Resolves with the first value that `look` returns, asked now and after events that came together; rejects after `timeoutMs`. */
  readonly until: <T>(what: string, look: () => T | undefined, timeoutMs?: number) => Promise<T>;
}

const TIMEOUT_MS = 120_000;

function createSignal(): Signal {
  const listeners = new Set<(key?: string) => void>();
  return {
    fire: (key) => {
      for (const listener of [...listeners]) listener(key);
    },
    listen: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    until: (what, look, timeoutMs = TIMEOUT_MS) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          listeners.delete(listener);
          reject(new Error(`waited ${timeoutMs} ms for ${what}`));
        }, timeoutMs);
        let isPlanned = false;
        const ask = () => {
          isPlanned = false;
          const found = look();
          if (found === undefined) return;
          clearTimeout(timer);
          listeners.delete(listener);
          resolve(found);
        };
        // A question may go through thousands of objects, and events come in bursts.
        const listener = () => {
          if (!isPlanned) setImmediate(ask);
          isPlanned = true;
        };
        listeners.add(listener);
        ask();
      }),
  };
}
