/** A host without a machine: keeps its Lease and says about its replicas what an agent would, so that many fit on one machine. */

import { createNewestSlices } from "../../../agent/endpoints/newest-slices.ts";
import { readyBody } from "../../../agent/endpoints/slice-body.ts";
import { createSliceWriter } from "../../../agent/endpoints/slice-writer.ts";
import { hostStatusBody } from "../../../agent/registration/host-status.ts";
import { silentLog as log } from "../../../local/terminal-log.ts";
import { API_VERSION, MANAGER_AGENT, NAMESPACE_HOSTS } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import { keepLease } from "../../../src/kube/lease/lease.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import { expectOk } from "./plane.ts";

export interface ScriptedHost {
  readonly name: string;
  readonly renewals: () => number;
  /** Renews its Lease no more, and serves nothing new. */
  readonly lose: () => void;
  readonly isLost: () => boolean;
  /** As an agent whose engine has become ready. */
  readonly serve: (replica: InferenceReplica) => Promise<void>;
}

const MEMORY_BYTES = 64 * 2 ** 30;
const PORT = 21_000;

/** Creates the Host, ready, and keeps its Lease until `signal` is aborted. */
export async function startScriptedHost(
  client: KubeClient,
  index: number,
  signal: AbortSignal,
): Promise<ScriptedHost> {
  const name = `mac-${index}`;
  const address = `198.18.${index >> 8}.${index & 255}`;
  const created = expectOk(
    await client.create(HOSTS, {
      apiVersion: API_VERSION,
      kind: "Host",
      metadata: { name },
      spec: { addresses: [address] },
    } as Host),
  );
  expectOk(
    await client.apply(HOSTS, statusOf(created, address), { manager: MANAGER_AGENT, subresource: "status" }),
  );
  let renewals = 0;
  const holder = `${name}_00000000-0000-4000-8000-${String(index).padStart(12, "0")}`;
  const onRenewed = () => {
    renewals += 1;
  };
  const losing = new AbortController();
  const until = AbortSignal.any([signal, losing.signal]);
  const lease = { name, namespace: NAMESPACE_HOSTS, holder, onRenewed };
  keepLease({ client, clock: systemClock, log, signal: until, ...lease });
  const slices = createSliceWriter(client, createNewestSlices());
  const serve = async (replica: InferenceReplica) => {
    const { metadata } = replica;
    const written = await slices.write(metadata, (slice) => readyBody(slice, { address, port: PORT }));
    if (written.at !== "written") throw new Error(`slice of ${metadata.name}: ${JSON.stringify(written)}`);
    const { name: replicaName, namespace = "default" } = metadata;
    const status = { phase: "Ready", reason: "EngineReady", message: "it answers", port: PORT };
    const object = {
      apiVersion: API_VERSION,
      kind: "InferenceReplica",
      metadata: { name: replicaName, namespace },
      status,
    };
    const options = { manager: MANAGER_AGENT, subresource: "status" } as const;
    expectOk(await client.apply(INFERENCE_REPLICAS, object as InferenceReplica, options));
  };
  return {
    name,
    serve,
    renewals: () => renewals,
    lose: () => losing.abort(),
    isLost: () => losing.signal.aborted,
  };
}

function statusOf(host: Host, address: string): Host {
  const seen = {
    info: { os: "darwin", arch: "arm64", memoryBytes: MEMORY_BYTES, agentVersion: "0.1.0" },
    address: { at: "up", address },
    memory: { totalBytes: MEMORY_BYTES, availableBytes: MEMORY_BYTES, wiredBytes: 0, pressure: "Normal" },
    gpuBudgetBytes: MEMORY_BYTES,
    claimedBytes: 0,
    disk: undefined,
    diskReserveBytes: 0,
    runtimes: {
      found: [{ name: "llamacpp", version: "11669", path: "/opt/homebrew/bin/llama-server" }],
      problems: [],
    },
    models: [],
    isWorking: true,
  } as const;
  return hostStatusBody(host, seen, new Date().toISOString());
}
