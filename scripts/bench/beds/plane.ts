/** A real control plane in a folder of its own, with watches of what the scenarios look at. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { readPartsConfig } from "../../../local/control-plane/config.ts";
import { type OpenOptions, openControlPlane } from "../../../local/control-plane/open.ts";
import { findClusterParts } from "../../../local/control-plane/parts.ts";
import type { ControlPlane } from "../../../local/control-plane/start.ts";
import { createTerminalLog } from "../../../local/terminal-log.ts";
import { type Condition, getCondition } from "../../../src/api/conditions.ts";
import { customResourceDefinitions } from "../../../src/api/crd/definitions.ts";
import { API_VERSION } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../../src/api/kinds.ts";
import type { Model } from "../../../src/api/model.ts";
import { connect, type KubeConnection } from "../../../src/kube/client/connect.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import { ENDPOINT_SLICES } from "../../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { ApiResult, KubeClient, Reflector } from "../../../src/kube/types.ts";
import { startReflector } from "../../../src/kube/watch/reflector.ts";
import { createSignal, type Signal } from "./signal.ts";

export interface Plane extends AsyncDisposable {
  readonly dir: string;
  readonly controlPlane: ControlPlane;
  readonly client: KubeClient;
  readonly connection: KubeConnection;
  readonly hosts: Reflector<Host>;
  readonly replicas: Reflector<InferenceReplica>;
  readonly slices: Reflector<EndpointSlice>;
  /** Fires on every event of hosts, models, replicas and slices. */
  readonly changed: Signal;
  /** Creates a Model, by default the one of all services; resolves when it is available. */
  readonly createModel: (source: string, name?: string) => Promise<void>;
  /** Creates a service of the one Model; resolves with the wall time (ms) at which the API server had accepted it. */
  readonly createService: (name: string, spec?: object) => Promise<number>;
  /** Runs before the control plane ends, last come first. */
  readonly atEnd: (cleanup: () => Promise<unknown>) => void;
}

/** As shells count a process that SIGINT ended. */
const INTERRUPTED = 130;
/** A fleet is created on a machine that has not much more cores than one of its hosts. */
export const REQUEST_TIMEOUT_MS = 30_000;
export const NAMESPACE = "default";
/** Of all services that name no other. */
const MODEL = "bench";
export const log = createTerminalLog((line) => process.stderr.write(line));

/** Our kinds are installed; nothing else runs. Without an address the API server listens on loopback. */
export async function openPlane(
  options: Pick<OpenOptions, "bindAddress" | "scheduler" | "fsync"> = {},
): Promise<Plane> {
  const cleanups: (() => Promise<unknown>)[] = [];
  const dispose = async () => {
    for (const cleanup of cleanups.splice(0).reverse())
      await cleanup().catch((error: unknown) => {
        log.error({ err: error }, "the bench did not clean up");
        process.exitCode = 1;
      });
  };
  endWith(dispose, cleanups);
  try {
    const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-bench-"));
    cleanups.push(() => rm(dir, { recursive: true, force: true }));
    const plane = await openControlPlane({
      dir,
      parts: findClusterParts(readPartsConfig()),
      crds: customResourceDefinitions(),
      log,
      ...options,
      onStopOrder: async () => {},
    });
    cleanups.push(plane.close);
    const { controlPlane } = plane;
    const connection = await connect({
      kubeconfigPath: controlPlane.kubeconfig,
      userAgent: "metalbridge-bench",
    });
    const ending = new AbortController();
    cleanups.push(async () => {
      ending.abort();
      connection.close();
    });
    return {
      dir,
      controlPlane,
      connection,
      ...watchPlane(connection, ending.signal),
      atEnd: (cleanup) => cleanups.push(cleanup),
      [Symbol.asyncDispose]: dispose,
    };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** An interrupted bench leaves no engine behind. */
function endWith(dispose: () => Promise<void>, cleanups: (() => Promise<unknown>)[]): void {
  const interrupt = (): void => void dispose().then(() => process.exit(INTERRUPTED));
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, interrupt);
    cleanups.push(async () => process.off(signal, interrupt));
  }
}

function watchPlane(connection: KubeConnection, signal: AbortSignal) {
  const client = createClient(connection, { timeoutMs: REQUEST_TIMEOUT_MS });
  const changed = createSignal();
  const everywhere = { connection, clock: systemClock, signal, log, onChange: changed.fire };
  const here = { ...everywhere, namespace: NAMESPACE };
  const models = startReflector<Model>({ ...here, kind: MODELS });
  return {
    client,
    changed,
    hosts: startReflector<Host>({ ...everywhere, kind: HOSTS }),
    replicas: startReflector<InferenceReplica>({ ...here, kind: INFERENCE_REPLICAS }),
    slices: startReflector<EndpointSlice>({ ...here, kind: ENDPOINT_SLICES }),
    createModel: async (source: string, name = MODEL) => {
      expectOk(await client.create(MODELS, modelManifest(source, name)));
      // A file of a host is Pending until a service has served it: that the controller has judged it is enough.
      await changed.until("a Model that the controller has judged", () => {
        const model = models.list().find(({ metadata }) => metadata.name === name);
        return model?.status?.conditions?.some(({ type }) => type === "Available") || undefined;
      });
    },
    createService: async (name: string, spec: object = {}) => {
      expectOk(await client.create(INFERENCE_SERVICES, serviceManifest(name, spec)));
      return Date.now();
    },
  };
}

export function isTrue(conditions: readonly Condition[] | undefined, type: string): boolean {
  return getCondition(conditions ?? [], type)?.status === "True";
}

function modelManifest(source: string, name: string): Model {
  return {
    apiVersion: API_VERSION,
    kind: "Model",
    metadata: { name, namespace: NAMESPACE },
    spec: { source, hardware: { accelerator: "metal" } },
  } as Model;
}

function serviceManifest(name: string, spec: object): InferenceService {
  return {
    apiVersion: API_VERSION,
    kind: "InferenceService",
    metadata: { name, namespace: NAMESPACE },
    spec: {
      modelRef: MODEL,
      contextSize: 256,
      parallelSlots: 1,
      promptCacheMiB: 0,
      rollout: { drainSeconds: 1 },
      ...spec,
    },
  } as InferenceService;
}

export function expectOk<T>(result: ApiResult<T>): T {
  if (!result.ok) throw new Error(`${result.error.kind}: ${result.error.message}`);
  return result.value;
}
