/** A private cluster with a controller, and short words for what its tests do and look at. */
import path from "node:path";
import { expect } from "vitest";
import { readCatalogFiles } from "../../cli/catalog/read.ts";
import { parseControllerConfig } from "../../controller/config.ts";
import { type ControllerOptions, runController } from "../../controller/main.ts";
import type { liveEvictionOf } from "../../controller/options/live-eviction/option.ts";
import type { ModelFormat } from "../../src/api/fields/shared.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Model } from "../../src/api/model.ts";
import { GGUF } from "../../src/capacity/testing/models.ts";
import { connect, type KubeConnection } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { type ControllerWork, readWork } from "../bed/controller-work.ts";
import { giveControllerIdentity } from "../bed/identity.ts";
import type { SimulatedNode, SimulatedNodes } from "../bed/kwok.ts";
import { must } from "../bed/must.ts";
import type { Objects } from "../bed/objects.ts";
import { until } from "../bed/until.ts";
import { type PrivateCluster, type PrivateClusterOptions, startCluster } from "../cluster/cluster.ts";
import { startLinuxCluster } from "../cluster/linux-cluster.ts";
import { WITHOUT_PODS } from "../cluster/planes.ts";
import { quietLog } from "../cluster/quiet-log.ts";
import { type AgentSide, type AgentSideOptions, startAgentSide } from "./agent-side.ts";

const GIB = 1024 ** 3;

export interface Bench extends AsyncDisposable {
  readonly cluster: PrivateCluster;
  readonly addNode: (node: SimulatedNode) => Promise<void>;
  readonly direct: SimulatedNodes["direct"];
  /** A Model that exists, as if its header had been read and its weights were on a volume. */
  readonly markReady: (namespace: string, name: string, status: Partial<Model["status"]>) => Promise<void>;
  readonly client: KubeClient;
  readonly connection: KubeConnection;
  readonly agent: (host: string, options?: Partial<AgentSideOptions>) => Promise<AgentSide>;
  /** Of the account that it has as installed. */
  readonly controllerKubeconfig: string;
  /** `further` flags replace those of the bench. */
  readonly restartController: (kubeconfig?: string, further?: object) => Promise<void>;
  readonly stopController: () => Promise<void>;
  /** Work of the current controller, with passes of these queues. */
  readonly work: (...queues: readonly string[]) => Promise<ControllerWork>;
  /** A second one, which waits for leadership. */
  readonly standby: (log: Log) => Promise<Controller>;
  readonly model: (namespace: string, name: string, options?: ModelOptions) => Promise<void>;
  /** With the rights of an administrator. */
  readonly objects: Objects;
  readonly apply: (object: object) => Promise<void>;
  readonly service: (namespace: string, name: string) => Promise<InferenceService>;
  readonly replicas: (namespace: string) => Promise<InferenceReplica[]>;
  /** Until the service is as `check` wants it; `check` may throw. */
  readonly serviceUntil: (
    namespace: string,
    name: string,
    check: (service: InferenceService) => void,
  ) => Promise<InferenceService>;
}

export interface ModelOptions {
  readonly gib?: number;
  readonly source?: string;
  readonly accelerator?: string;
  readonly format?: string;
  readonly gpus?: number;
  readonly flavors?: readonly object[];
  /** Its weights are on a volume, for pods. Absent: where the accelerator is not metal. */
  readonly isOnVolume?: boolean;
}

export interface BenchOptions {
  /** Simulated Linux nodes, with a scheduler. */
  readonly nodes?: readonly SimulatedNode[];
  readonly clock?: Clock;
  readonly log?: Log;
  /** More of the controller. */
  readonly flags?: object;
  readonly liveEviction?: Parameters<typeof liveEvictionOf>[1];
  /** More of the control plane. */
  readonly controlPlane?: PrivateClusterOptions;
}

type ControllerInputs = Required<Pick<ControllerOptions, "clock" | "log">> &
  Pick<ControllerOptions, "identity">;

export async function startBench(options: BenchOptions = {}): Promise<Bench> {
  const { clock = systemClock, log = quietLog, nodes, flags, liveEviction, controlPlane } = options;
  const linux = nodes === undefined ? undefined : await startLinuxCluster(nodes, controlPlane);
  const cluster = linux ?? (await startCluster({ controllerManager: WITHOUT_PODS, ...controlPlane }));
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  const client = createClient(connection);
  const agents: AgentSide[] = [];
  const own = path.join(cluster.dir, "controller.kubeconfig");
  await giveControllerIdentity(cluster, own);
  const startController = (kubeconfig: string, further?: object) =>
    startOne(kubeconfig, { clock, log, liveEviction, flags: { ...flags, ...further } });
  let controller = await startController(own);
  await controller.whenWorking();
  const { objects } = cluster;
  const service = async (namespace: string, name: string) => {
    return must(await client.get(INFERENCE_SERVICES, { namespace, name }));
  };
  return {
    cluster,
    addNode: async (node) => {
      if (linux === undefined) throw new Error("only a bench with simulated nodes gets more of them");
      await linux.nodes.add(node);
    },
    direct: async (...script) => {
      if (linux === undefined) throw new Error("only simulated nodes follow a script");
      await linux.nodes.direct(...script);
    },
    markReady: (namespace, name, status) => markReady(client, namespace, name, status),
    client,
    connection,
    objects,
    apply: objects.apply,
    service,
    agent: async (host, options = {}) => {
      // Where the clock is stepped only the test knows when time passes.
      const renewing = clock === systemClock ? { renewEveryMs: 5_000 } : {};
      const agent = await startAgentSide({ connection, client, host, ...renewing, ...options });
      agents.push(agent);
      return agent;
    },
    restartController: async (kubeconfig = own, further = {}) => {
      await controller.stop();
      controller = await startController(kubeconfig, further);
      await controller.whenWorking();
    },
    standby: async (ofStandby) => {
      const other = await startOne(own, { clock, log: ofStandby, liveEviction, flags, identity: "standby" });
      await until(async () => expect(await other.readiness()).toContain("waiting for leadership"));
      return other;
    },
    controllerKubeconfig: own,
    stopController: () => controller.stop(),
    work: (...queues) => controller.work(queues),
    model: (namespace, name, options) => makeModel(client, objects.apply, namespace, name, options),
    replicas: async (namespace) => must(await client.list(INFERENCE_REPLICAS, { namespace })).items,
    serviceUntil: (namespace, name, check) =>
      objects.until(namespace, `isvc/${name}`, (found: InferenceService | undefined) => {
        if (found === undefined) throw new Error(`${namespace}/${name} does not exist`);
        check(found);
        return found;
      }),
    [Symbol.asyncDispose]: async () => {
      for (const agent of agents) agent.fallSilent();
      await controller.stop();
      connection.close();
      await cluster[Symbol.asyncDispose]();
    },
  };
}

/** A node with NVIDIA GPUs, labeled as by GPU Feature Discovery. */
export function gpuNode(name: string, product: string, gib: number, gpus: number): SimulatedNode {
  return {
    name,
    labels: { "nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": String(gib * 1024) },
    capacity: { "nvidia.com/gpu": String(gpus) },
  };
}

/** Creates a namespace with the claim for weights that pods share. */
export async function createNamespaceWithCache({ objects }: Bench, name: string): Promise<void> {
  await objects.createNamespace(name);
  await objects.apply({
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "metalbridge-model-cache", namespace: name },
    spec: { accessModes: ["ReadWriteMany"], resources: { requests: { storage: "1Gi" } } },
  });
}

/** An InferenceService as a user writes it. */
export function inferenceService(namespace: string, name: string, spec: object = {}): object {
  return {
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "InferenceService",
    metadata: { name, namespace },
    spec: { modelRef: "tiny", ...spec },
  };
}

interface Controller {
  readonly whenWorking: () => Promise<void>;
  /** What /readyz says. */
  readonly readiness: () => Promise<string>;
  readonly work: (queues: readonly string[]) => Promise<ControllerWork>;
  readonly stop: () => Promise<void>;
}

async function startOne(
  kubeconfig: string,
  {
    clock,
    log,
    flags,
    identity,
    liveEviction,
  }: Pick<BenchOptions, "flags" | "liveEviction"> & ControllerInputs,
): Promise<Controller> {
  const stop = new AbortController();
  const listening = Promise.withResolvers<number>();
  const working = Promise.withResolvers<void>();
  const parsed = parseControllerConfig({
    benchmarks: "Off",
    kubeconfig,
    healthPort: 0,
    image: "registry.example/metalbridge:1.0.0",
    ...flags,
  });
  const config = Object.assign(parsed, { liveEvictionTimes: liveEviction });
  // Models are input here: their status is written by the test.
  const createModelPass = () => async () => undefined;
  const { records } = await readCatalogFiles();
  const running = runController({
    config,
    records,
    clock,
    log,
    signal: stop.signal,
    createModelPass,
    // Tests set the clock forward; that must not look like a leader that cannot renew.
    lease: { durationSeconds: 3_600, renewDeadlineMs: 3_599_000, retryMs: 1_000 },
    identity,
    onListening: listening.resolve,
    onWorking: working.resolve,
  });
  const port = Number(await Promise.race([listening.promise, running]));
  return {
    whenWorking: () => Promise.race([working.promise, running]),
    readiness: async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).text(),
    work: (queues) => readWork(port, queues),
    stop: async () => {
      stop.abort();
      await running;
    },
  };
}

export async function makeModel(
  client: KubeClient,
  apply: Bench["apply"],
  namespace: string,
  name: string,
  {
    gib = 4,
    source = "https://models.example/tiny.gguf",
    accelerator = "metal",
    format = "gguf",
    gpus,
    flavors,
    isOnVolume = accelerator !== "metal",
  }: ModelOptions = {},
): Promise<void> {
  const gpu = gpus === undefined ? {} : { gpu: { count: gpus } };
  const spec = { source, hardware: { accelerator, ...gpu }, flavors };
  await apply({ apiVersion: "metalbridge.dev/v1alpha1", kind: "Model", metadata: { name, namespace }, spec });
  const size = gib * GIB;
  await markReady(client, namespace, name, {
    sizeBytes: size,
    weightsBytes: size,
    format: format as ModelFormat,
    gguf: GGUF,
    // On a volume, for pods.
    ...(isOnVolume
      ? {
          files: ["tiny.gguf"],
          cache: {
            ...({ phase: "Ready", reason: "Downloaded", message: "" } as const),
            claimName: "metalbridge-model-cache",
            folder: name,
            file: "tiny.gguf",
          },
        }
      : {}),
  });
}

export async function markReady(
  client: KubeClient,
  namespace: string,
  name: string,
  found: Partial<Model["status"]>,
): Promise<void> {
  const status = { phase: "Ready", reason: "SourceResolved", ...found };
  const body = { metadata: { name, namespace }, status } as unknown as Model;
  must(await client.apply(MODELS, body, { manager: "test", subresource: "status" }));
}
