/** What the scenarios run on: a real control plane, controller and agent as processes, services made and watched by the API. */
import { mkdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { readPartsConfig } from "../../cli/control-plane/config.ts";
import { openControlPlane } from "../../cli/control-plane/open.ts";
import { findClusterParts } from "../../cli/control-plane/parts.ts";
import { createTerminalLog } from "../../cli/program/terminal-log.ts";
import { type Condition, getCondition } from "../../src/api/conditions.ts";
import { customResourceDefinitions } from "../../src/api/crd/definitions.ts";
import { API_VERSION } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Model } from "../../src/api/model.ts";
import { connect, type KubeConnection } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { ENDPOINT_SLICES } from "../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { ApiResult, KubeClient, Reflector } from "../../src/kube/types.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { createNamespacePair } from "../../test/cluster/network-namespace.ts";
import { writeTinyGguf } from "../../test/fixtures/tiny-gguf.ts";
import { type Farm, startFarm } from "../../test/system/farm.ts";
import { installRelease } from "./release.ts";
import { createSignal, type Signal } from "./signal.ts";

export interface Bed extends AsyncDisposable {
  readonly client: KubeClient;
  readonly connection: KubeConnection;
  readonly farm: Farm;
  readonly replicas: Reflector<InferenceReplica>;
  readonly slices: Reflector<EndpointSlice>;
  /** Fires on every event of replicas and slices. */
  readonly changed: Signal;
  /** Creates a service of the one Model; resolves with the wall time (ms) at which the API server had accepted it. */
  readonly createService: (name: string) => Promise<number>;
}

export const NAMESPACE = "default";

/** Everything runs, the Host and the one Model are ready, its weights are on disk. */
export async function openBed(): Promise<Bed> {
  const cleanups: (() => Promise<unknown>)[] = [];
  const dispose = async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup().catch(() => {});
  };
  try {
    const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-bench-"));
    cleanups.push(() => rm(dir, { recursive: true, force: true }));
    const pair = await createNamespacePair();
    cleanups.push(pair.remove);
    const plane = await openControlPlane({
      dir,
      parts: findClusterParts(readPartsConfig()),
      crds: customResourceDefinitions(),
      log: createTerminalLog((line) => process.stderr.write(line)),
      onStopOrder: async () => {},
    });
    cleanups.push(plane.close);
    const { kubeconfig } = plane.controlPlane;
    const program = await installRelease(path.join(dir, "release"));
    const farm = await startFarm({ kubeconfig, address: pair.hostAddress, program });
    cleanups.push(async () => farm[Symbol.asyncDispose]());
    mkdirSync(farm.modelsDir, { recursive: true });
    const source = path.join(farm.modelsDir, "bench.gguf");
    await writeTinyGguf(source);
    const connection = await connect({ kubeconfigPath: kubeconfig, userAgent: "metalbridge-bench" });
    const ending = new AbortController();
    cleanups.push(async () => {
      ending.abort();
      connection.close();
    });
    const watched = watchBed(connection, ending.signal);
    await watched.changed.until(
      "a Host that is ready",
      () => watched.hosts.list().some(({ status }) => isTrue(status?.conditions, "Ready")) || undefined,
    );
    expectOk(await watched.client.create(MODELS, modelManifest(source)));
    await watched.changed.until(
      "a Model that is ready",
      () => watched.models.list().some(({ status }) => isTrue(status?.conditions, "Available")) || undefined,
    );
    return { ...watched, connection, farm, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

function watchBed(connection: KubeConnection, signal: AbortSignal) {
  const client = createClient(connection);
  const changed = createSignal();
  const everywhere = {
    ...{ connection, clock: systemClock, signal },
    log: createTerminalLog((line) => process.stderr.write(line)),
    onChange: changed.fire,
  };
  const here = { ...everywhere, namespace: NAMESPACE };
  const createService = async (name: string) => {
    expectOk(await client.create(INFERENCE_SERVICES, serviceManifest(name)));
    return Date.now();
  };
  return {
    ...{ client, changed, createService },
    hosts: startReflector<Host>({ ...everywhere, kind: HOSTS }),
    models: startReflector<Model>({ ...here, kind: MODELS }),
    replicas: startReflector<InferenceReplica>({ ...here, kind: INFERENCE_REPLICAS }),
    slices: startReflector<EndpointSlice>({ ...here, kind: ENDPOINT_SLICES }),
  };
}

function isTrue(conditions: readonly Condition[] | undefined, type: string): boolean {
  return getCondition(conditions ?? [], type)?.status === "True";
}

function modelManifest(source: string): Model {
  return {
    apiVersion: API_VERSION,
    kind: "Model",
    metadata: { name: "bench", namespace: NAMESPACE },
    spec: { source, hardware: { accelerator: "metal" } },
  } as Model;
}

function serviceManifest(name: string): InferenceService {
  return {
    apiVersion: API_VERSION,
    kind: "InferenceService",
    metadata: { name, namespace: NAMESPACE },
    spec: {
      modelRef: "bench",
      contextSize: 256,
      parallelSlots: 1,
      promptCacheMiB: 0,
      rollout: { drainSeconds: 1 },
    },
  } as InferenceService;
}

export function expectOk<T>(result: ApiResult<T>): T {
  if (!result.ok) throw new Error(`${result.error.kind}: ${result.error.message}`);
  return result.value;
}
