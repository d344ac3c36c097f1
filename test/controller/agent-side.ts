/** What an agent would write, written through the real API server: the controller's input in tests. */
import {
  FINALIZER_ENGINE,
  LABEL_HOST,
  MANAGER_AGENT,
  NAMESPACE_HOSTS,
  PORT_NAME,
} from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { ENDPOINT_SLICES, LEASES } from "../../src/kube/kinds.ts";
import type { EndpointSlice, Lease } from "../../src/kube/objects.ts";
import { createQueue } from "../../src/kube/queue.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { ApiResult, KubeClient } from "../../src/kube/types.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { quietLog } from "../cluster/quiet-log.ts";

const GIB = 1024 ** 3;

export interface AgentSideOptions {
  readonly connection: KubeConnection;
  readonly client: KubeClient;
  readonly host: string;
  readonly address?: string;
  readonly budgetGib?: number;
  readonly labels?: Record<string, string>;
  readonly runtimes?: readonly string[];
  /** What becomes of a replica here; Ready where it answers nothing. */
  readonly statusOf?: (replica: InferenceReplica) => InferenceReplica["status"];
  /** Absent where the test's own clock decides: then the Lease is renewed once, and by `renew`. */
  readonly renewEveryMs?: number;
}

export interface AgentSide extends AsyncDisposable {
  /** Renews the Lease once; tests decide when. */
  readonly renew: () => Promise<void>;
  /** Acts no more, like an agent whose machine is off. */
  readonly fallSilent: () => void;
}

/** Registers a host and makes every replica on it Ready, or Stopped where it is to drain, and lets go of every replica that is being deleted. */
export async function startAgentSide(options: AgentSideOptions): Promise<AgentSide> {
  const { client, connection, host } = options;
  const stop = new AbortController();
  await registerHost(options);
  const queue = createQueue<string>({
    clock: systemClock,
    log: quietLog,
    signal: stop.signal,
    reconcile: async (key) => act(options, replicas.get(key)),
  });
  const replicas = startReflector<InferenceReplica>({
    connection,
    clock: systemClock,
    log: quietLog,
    signal: stop.signal,
    kind: INFERENCE_REPLICAS,
    fieldSelector: `spec.template.hostName=${host}`,
    onChange: (key) => queue.enqueue(key),
  });
  const slices = startReflector<EndpointSlice>({
    connection,
    clock: systemClock,
    log: quietLog,
    signal: stop.signal,
    kind: ENDPOINT_SLICES,
    labelSelector: `${LABEL_HOST}=${host}`,
    onChange: (key) => queue.enqueue(key),
  });
  await Promise.all([replicas.whenSynced(), slices.whenSynced()]);
  await renewLease(client, host);
  renewUntil(stop.signal, options);
  return {
    renew: () => renewLease(client, host),
    fallSilent: () => stop.abort(),
    [Symbol.asyncDispose]: async () => stop.abort(),
  };
}

/** Fast enough that a slow test is not a silent host; one that fails is made up for by the next. */
function renewUntil(signal: AbortSignal, { client, host, renewEveryMs }: AgentSideOptions): void {
  if (renewEveryMs === undefined) return;
  const timer = setInterval(() => void renewLease(client, host).catch(() => {}), renewEveryMs);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}

export async function renewLease(client: KubeClient, host: string): Promise<void> {
  const spec = {
    holderIdentity: `${host}_test`,
    leaseDurationSeconds: 40,
    renewTime: new Date().toISOString().replace("Z", "000Z"),
  };
  const found = await client.get(LEASES, { name: host, namespace: NAMESPACE_HOSTS });
  const lease: Lease = found.ok
    ? { ...found.value, spec }
    : { metadata: { name: host, namespace: NAMESPACE_HOSTS }, spec };
  must(found.ok ? await client.update(LEASES, lease) : await client.create(LEASES, lease));
}

export async function registerHost(options: AgentSideOptions): Promise<void> {
  const {
    client,
    host,
    address = "192.168.7.20",
    budgetGib = 64,
    labels = {},
    runtimes = ["llamacpp"],
  } = options;
  const object = { metadata: { name: host, labels }, spec: { addresses: [address] } } as unknown as Host;
  const created = await client.create(HOSTS, object);
  if (!created.ok && created.error.kind !== "alreadyExists") must(created);
  const status: Host["status"] = {
    conditions: [
      {
        type: "Ready",
        status: "True",
        reason: "AgentReady",
        message: "",
        lastTransitionTime: "2026-01-01T00:00:00Z",
      },
    ],
    addresses: [address],
    runtimes: runtimes.map((name) => ({ name, version: "11669" })),
    memory: { totalBytes: 96 * GIB, gpuBudgetBytes: budgetGib * GIB, pressure: "Normal" },
  };
  const body = { metadata: { name: host }, status } as unknown as Host;
  must(await client.apply(HOSTS, body, { manager: MANAGER_AGENT, subresource: "status" }));
}

async function act(options: AgentSideOptions, replica: InferenceReplica | undefined): Promise<void> {
  if (replica === undefined) return;
  const { name, namespace = "default", finalizers = [], uid, resourceVersion } = replica.metadata;
  if (replica.metadata.deletionTimestamp !== undefined) {
    if (!finalizers.includes(FINALIZER_ENGINE)) return;
    const left = finalizers.filter((one) => one !== FINALIZER_ENGINE);
    return mustUnlessBehind(
      await options.client.jsonPatch(INFERENCE_REPLICAS, { name, namespace }, [
        { op: "test", path: "/metadata/uid", value: uid },
        { op: "test", path: "/metadata/resourceVersion", value: resourceVersion },
        { op: "replace", path: "/metadata/finalizers", value: left },
      ]),
    );
  }
  const special = options.statusOf?.(replica);
  if (special !== undefined) return writeStatus(options, replica, special);
  const slice = await options.client.get(ENDPOINT_SLICES, { name, namespace });
  if (!slice.ok) return mustUnlessBehind(slice);
  const filled = {
    metadata: { name, namespace },
    addressType: slice.value.addressType,
    endpoints: [
      {
        addresses: [options.address ?? "192.168.7.20"],
        conditions: { ready: true, serving: true, terminating: false },
      },
    ],
    ports: [{ name: PORT_NAME, port: 21000, protocol: "TCP" }],
  } as EndpointSlice;
  const manager = MANAGER_AGENT;
  mustUnlessBehind(await options.client.apply(ENDPOINT_SLICES, filled, { manager, current: slice.value }));
  const status =
    replica.spec.drain === undefined
      ? ({ phase: "Ready", reason: "EngineReady", message: "", port: 21000, pid: 4711 } as const)
      : ({ phase: "Stopped", reason: "Drained", message: "spec.drain is set" } as const);
  await writeStatus(options, replica, status);
}

async function writeStatus(
  { client }: AgentSideOptions,
  replica: InferenceReplica,
  status: InferenceReplica["status"],
): Promise<void> {
  const { name, namespace = "default" } = replica.metadata;
  const body = { metadata: { name, namespace }, status } as unknown as InferenceReplica;
  const options = { manager: MANAGER_AGENT, subresource: "status", current: replica } as const;
  mustUnlessBehind(await client.apply(INFERENCE_REPLICAS, body, options));
}

/** The queue retries; what another client wrote first brings a pass of its own. */
function mustUnlessBehind(result: ApiResult<unknown>): void {
  if (!result.ok && result.error.kind !== "conflict" && result.error.kind !== "notFound") must(result);
}

function must(result: ApiResult<unknown>): void {
  if (!result.ok) throw new Error(result.error.message);
}
