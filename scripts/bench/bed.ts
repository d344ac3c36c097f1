/** What the scenarios run on: a real control plane, controller and agent as processes, services made and watched by the API. */
import { mkdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { readPartsConfig } from "../../cli/control-plane/config.ts";
import { openControlPlane } from "../../cli/control-plane/open.ts";
import { findClusterParts } from "../../cli/control-plane/parts.ts";
import { createTerminalLog } from "../../cli/terminal-log.ts";
import { customResourceDefinitions } from "../../src/api/crd/definitions.ts";
import { API_VERSION } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
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
import { createSignal, type Signal } from "./signal.ts";

export interface Bed extends AsyncDisposable {
  readonly client: KubeClient;
  readonly connection: KubeConnection;
  readonly farm: Farm;
  readonly replicas: Reflector<InferenceReplica>;
  readonly slices: Reflector<EndpointSlice>;
  /** Fires on every event of replicas and slices. */
  readonly changed: Signal;
  /** Creates the Model once and the service; resolves with the wall time (ms) at which the API server had accepted it. */
  readonly createService: (name: string) => Promise<number>;
}

export const NAMESPACE = "default";

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
    const farm = await startFarm({ kubeconfig, address: pair.hostAddress });
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
    return {
      ...watchBed(connection, ending.signal, source),
      connection,
      farm,
      [Symbol.asyncDispose]: dispose,
    };
  } catch (error) {
    await dispose();
    throw error;
  }
}

function watchBed(connection: KubeConnection, signal: AbortSignal, source: string) {
  const client = createClient(connection);
  const changed = createSignal();
  const watched = {
    ...{ connection, clock: systemClock, signal, namespace: NAMESPACE },
    log: createTerminalLog((line) => process.stderr.write(line)),
    onChange: changed.fire,
  };
  const replicas = startReflector<InferenceReplica>({ ...watched, kind: INFERENCE_REPLICAS });
  const slices = startReflector<EndpointSlice>({ ...watched, kind: ENDPOINT_SLICES });
  let model: Promise<unknown> | undefined;
  const createService = async (name: string) => {
    model ??= client.create(MODELS, modelManifest(source)).then(expectOk);
    await model;
    expectOk(await client.create(INFERENCE_SERVICES, serviceManifest(name)));
    return Date.now();
  };
  return { client, replicas, slices, changed, createService };
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
