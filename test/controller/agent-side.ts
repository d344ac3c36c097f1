/** What an agent would write, written through the real API server: the controller's input in tests. */
import { FINALIZER_ENGINE, LABEL_HOST, NAMESPACE_HOSTS } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { ENDPOINT_SLICES, LEASES } from "../../src/kube/kinds.ts";
import type { EndpointSlice, Lease } from "../../src/kube/objects.ts";
import { createQueue } from "../../src/kube/queue.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { must } from "../bed/must.ts";
import {
  type HostOptions,
  isAccepted,
  registerHost,
  reportReplica,
  serveReplica,
} from "../bed/scripted-host.ts";
import { quietLog } from "../cluster/quiet-log.ts";

export interface ActOptions {
  readonly client: KubeClient;
  readonly address?: string;
  /** The status of a replica on this host; Ready where it returns undefined. */
  readonly statusOf?: (replica: InferenceReplica) => InferenceReplica["status"];
  /** The newest one of the replica; it is read where this is absent. */
  readonly slice?: EndpointSlice | undefined;
}

export interface AgentSideOptions extends HostOptions, ActOptions {
  readonly connection: KubeConnection;
  readonly host: string;
  /** Absent where the test's own clock decides: then the Lease is renewed once, and by `renew`. */
  readonly renewEveryMs?: number;
}

export interface AgentSide extends AsyncDisposable {
  /** Renews the Lease once; tests decide when. */
  readonly renew: () => Promise<void>;
  /** Acts no more, like an agent whose machine is off. */
  readonly fallSilent: () => void;
}

/** Registers a host and makes every replica on it Ready, or Stopped where it is to drain, and removes the finalizer of every replica that is being deleted. */
export async function startAgentSide(options: AgentSideOptions): Promise<AgentSide> {
  const { client, connection, host } = options;
  const stop = new AbortController();
  const shared = { connection, clock: systemClock, log: quietLog, signal: stop.signal };
  await registerHost(client, host, options);
  const queue = createQueue<string>({ ...shared, reconcile: async (key) => act(options, replicas.get(key)) });
  const onChange = (key: string) => queue.enqueue(key);
  const replicas = startReflector<InferenceReplica>({
    ...shared,
    kind: INFERENCE_REPLICAS,
    fieldSelector: `spec.template.hostName=${host}`,
    onChange,
  });
  const slices = startReflector<EndpointSlice>({
    ...shared,
    kind: ENDPOINT_SLICES,
    labelSelector: `${LABEL_HOST}=${host}`,
    onChange,
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

/** What an agent does after a change of a replica or of its slice. */
export async function act(options: ActOptions, replica: InferenceReplica | undefined): Promise<void> {
  if (replica === undefined) return;
  const { client, address, statusOf, slice } = options;
  if (replica.metadata.deletionTimestamp !== undefined) return removeFinalizer(client, replica);
  const drained = { phase: "Stopped", reason: "Drained", message: "spec.drain is set" } as const;
  const status = statusOf?.(replica) ?? (replica.spec.drain === undefined ? undefined : drained);
  if (status === undefined) await serveReplica(client, replica, address, slice);
  else await reportReplica(client, replica, status);
}

async function removeFinalizer(client: KubeClient, { metadata }: InferenceReplica): Promise<void> {
  const { name, namespace, finalizers = [], uid, resourceVersion } = metadata;
  if (!finalizers.includes(FINALIZER_ENGINE)) return;
  const value = finalizers.filter((one) => one !== FINALIZER_ENGINE);
  isAccepted(
    await client.jsonPatch(INFERENCE_REPLICAS, { name, namespace }, [
      { op: "test", path: "/metadata/uid", value: uid },
      { op: "test", path: "/metadata/resourceVersion", value: resourceVersion },
      { op: "replace", path: "/metadata/finalizers", value },
    ]),
  );
}
