/** Measures the cost of admission policies for a host's writes: the same ones with and without policies, in turn. */
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { hostPolicies } from "../../../src/api/access/host-policies.ts";
import {
  ANNOTATION_ADDRESSES,
  API_VERSION,
  LABEL_HOST,
  LABEL_SLICE_MANAGED_BY,
  MANAGER_AGENT,
  NAMESPACE_HOSTS,
  SLICE_MANAGED_BY,
} from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import { connect } from "../../../src/kube/client/connect.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import { ADMISSION_POLICY_BINDINGS, ENDPOINT_SLICES, LEASES } from "../../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import type { KubeClient, KubeObject } from "../../../src/kube/types.ts";
import { addHost, giveIdentity } from "../../../test/bed/identity.ts";
import { must } from "../../../test/bed/must.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
import { NAMESPACE, openPlane, type Plane } from "../beds/plane.ts";

/** With and without in turn, after a first one that warms everything up. */
const BLOCKS = 13;
const WRITES = 100;
const [HOST, OTHER] = ["mac-0", "mac-1"];
const ADDRESS = "192.0.2.1";
const POLL_MS = 50;
const REPLICA = { name: "bench-0", namespace: NAMESPACE };

type Write = (turn: number) => Promise<unknown>;

export async function measureAdmission(): Promise<readonly ScenarioResult[]> {
  await using plane = await openPlane();
  const { kubeconfig } = plane.controlPlane;
  for (const name of [HOST, OTHER]) await addHost({ kubeconfig }, name, [ADDRESS]);
  await createObjects(plane.client);
  const file = path.join(plane.dir, "host.kubeconfig");
  await giveIdentity({ kubeconfig }, HOST, file);
  const connection = await connect({ kubeconfigPath: file });
  plane.atEnd(async () => connection.close());
  const host = createClient(connection);
  const writes = await hostWrites(host);
  const samples = new Map<string, readonly number[]>();
  for (let block = 0; block < BLOCKS; block++) {
    const isOn = block % 2 === 0;
    await switchPolicies(plane, host, isOn);
    for (const [what, write] of writes) {
      const name = `${what}, ${isOn ? "with" : "without"} admission policies`;
      const taken = await timed(write, block);
      if (block > 0) samples.set(name, [...(samples.get(name) ?? []), ...taken]);
    }
  }
  return [...samples]
    .toSorted(([one], [other]) => one.localeCompare(other))
    .map(([name, all]) => measured(name, "ms", all));
}

async function timed(write: Write, block: number): Promise<readonly number[]> {
  const samples: number[] = [];
  for (let turn = 0; turn < WRITES; turn++) {
    const start = performance.now();
    await write(block * WRITES + turn);
    samples.push(performance.now() - start);
  }
  return samples;
}

/** What an agent writes most: each call changes something. */
async function hostWrites(host: KubeClient): Promise<readonly (readonly [string, Write])[]> {
  let lease = must(await host.get(LEASES, { name: HOST, namespace: NAMESPACE_HOSTS }));
  const apply = { manager: MANAGER_AGENT };
  return [
    [
      "renewal of a Lease",
      async (turn) => {
        const spec = { ...lease.spec, holderIdentity: HOST, leaseTransitions: turn };
        lease = must(await host.update(LEASES, { ...lease, spec }));
      },
    ],
    [
      "status of a replica",
      async (turn) => {
        const status = { phase: "Ready", reason: "EngineReady", message: "it answers", restarts: turn };
        const object = { apiVersion: API_VERSION, kind: "InferenceReplica", metadata: REPLICA, status };
        const replica = object as unknown as InferenceReplica;
        must(await host.apply(INFERENCE_REPLICAS, replica, { ...apply, subresource: "status" }));
      },
    ],
    [
      "endpoint of a slice",
      async (turn) => {
        const slice = sliceAt(21_000 + turn);
        must(await host.apply(ENDPOINT_SLICES, slice, apply));
      },
    ],
  ];
}

/** Resolves once the API server denies, or no longer denies, what the policies are for. */
async function switchPolicies(plane: Plane, host: KubeClient, isOn: boolean): Promise<void> {
  const bindings = hostPolicies().filter(({ kind }) => kind === ADMISSION_POLICY_BINDINGS.kind);
  for (const binding of bindings) {
    const { client } = plane;
    if (isOn) {
      const object = binding as KubeObject;
      must(await client.apply(ADMISSION_POLICY_BINDINGS, object, { manager: "metalbridge-bench" }));
    } else must(await client.remove(ADMISSION_POLICY_BINDINGS, { name: binding.metadata.name }));
  }
  for (let turn = 0; ; turn++) {
    const status = { conditions: [], addresses: [`192.0.2.${turn % 200}`] };
    const object = { apiVersion: API_VERSION, kind: "Host", metadata: { name: OTHER }, status };
    const response = await host.apply(HOSTS, object as never, {
      manager: MANAGER_AGENT,
      subresource: "status",
    });
    if (response.ok !== isOn) return;
    await pause(POLL_MS);
  }
}

async function createObjects(client: KubeClient): Promise<void> {
  const template = {
    hostName: HOST,
    serviceName: "bench",
    serviceUid: crypto.randomUUID(),
    revision: "0123456789",
    runtime: "llamacpp",
    model: { source: "file:///models/bench.gguf", format: "gguf" },
    engine: { mode: "chat" },
  };
  const spec = { template, memory: { claimBytes: 1_000_000 } };
  const replica = { apiVersion: API_VERSION, kind: "InferenceReplica", metadata: REPLICA, spec };
  must(await client.create(INFERENCE_REPLICAS, replica as unknown as InferenceReplica));
  const labels = { [LABEL_HOST]: HOST, [LABEL_SLICE_MANAGED_BY]: SLICE_MANAGED_BY };
  const annotations = { [ANNOTATION_ADDRESSES]: ADDRESS };
  const slice = sliceAt(20_999);
  must(await client.create(ENDPOINT_SLICES, { ...slice, metadata: { ...REPLICA, labels, annotations } }));
}

function sliceAt(port: number): EndpointSlice {
  const conditions = { ready: true, serving: true, terminating: false };
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: REPLICA,
    addressType: "IPv4",
    endpoints: [{ addresses: [ADDRESS], conditions }],
    ports: [{ name: "http", port, protocol: "TCP" }],
  };
}
