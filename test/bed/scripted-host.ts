/** A host without a machine: writes what its agent would through the real API server. */

import { createSliceWriter, readyBody } from "../../agent/endpoints/endpoints.ts";
import { createNewestSlices } from "../../agent/endpoints/newest-slices.ts";
import { hostStatusBody } from "../../agent/registration/host-status.ts";
import { API_VERSION, MANAGER_AGENT } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { keyOf } from "../../src/api/names.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import type { ApiResult, KubeClient } from "../../src/kube/types.ts";
import { must } from "./must.ts";

const GIB = 2 ** 30;
const STATUS = { manager: MANAGER_AGENT, subresource: "status" } as const;
export const ENGINE_PORT = 21_000;
export const HOST_ADDRESS = "192.168.7.20";

export interface HostOptions {
  readonly address?: string;
  /** Memory that engines may use. */
  readonly budgetGib?: number;
  readonly labels?: Record<string, string>;
  readonly runtimes?: readonly string[];
}

/** Creates the Host unless it exists, and reports it ready with its runtimes and memory. */
export async function registerHost(
  client: KubeClient,
  name: string,
  { address = HOST_ADDRESS, budgetGib = 64, labels = {}, runtimes = ["llamacpp"] }: HostOptions = {},
): Promise<void> {
  const host = { metadata: { name, labels }, spec: { addresses: [address] } } as unknown as Host;
  const created = await client.create(HOSTS, host);
  const existing =
    created.ok || created.error.kind !== "alreadyExists" ? created : await client.get(HOSTS, { name });
  const totalBytes = 1.5 * budgetGib * GIB;
  const observed = {
    info: { os: "darwin", arch: "arm64", memoryBytes: totalBytes, agentVersion: "0.1.0" },
    address: { at: "up", address },
    memory: { totalBytes, availableBytes: totalBytes, wiredBytes: 0, pressure: "Normal" },
    gpuBudgetBytes: budgetGib * GIB,
    claimedBytes: 0,
    disk: undefined,
    diskReserveBytes: 0,
    runtimes: {
      found: runtimes.map((name) => ({ name, version: "11669", path: `/opt/homebrew/bin/${name}` })),
      problems: [],
    },
    models: [],
    isWorking: true,
  } as const;
  must(await client.apply(HOSTS, hostStatusBody(must(existing), observed, new Date().toISOString()), STATUS));
}

/** Writes the ready endpoint and the status of a replica whose engine answers. False: see `isAccepted`. `newest` saves a read. */
export async function serveReplica(
  client: KubeClient,
  replica: InferenceReplica,
  address = HOST_ADDRESS,
  newest?: EndpointSlice,
): Promise<boolean> {
  const known = createNewestSlices();
  known.seen(keyOf(replica.metadata), newest);
  const slices = createSliceWriter(client, known);
  const endpoint = { address, port: ENGINE_PORT };
  const written = await slices.write(replica.metadata, (slice) => readyBody(slice, endpoint));
  if (written.at === "failed") return isAccepted({ ok: false, error: written.failure });
  if (written.at === "refused") throw new Error(written.why);
  const ready = { phase: "Ready", reason: "EngineReady", message: "", port: ENGINE_PORT, pid: 4711 } as const;
  return written.at === "written" && reportReplica(client, replica, ready);
}

/** Writes the status of a replica. False: see `isAccepted`. */
export async function reportReplica(
  client: KubeClient,
  replica: InferenceReplica,
  status: InferenceReplica["status"],
): Promise<boolean> {
  const { name, namespace } = replica.metadata;
  const body = { apiVersion: API_VERSION, kind: "InferenceReplica", metadata: { name, namespace }, status };
  return isAccepted(
    await client.apply(INFERENCE_REPLICAS, body as InferenceReplica, { ...STATUS, current: replica }),
  );
}

/** False where another client was faster, or the object is missing: the next event brings another attempt. */
export function isAccepted(result: ApiResult<unknown>): boolean {
  if (!result.ok && !["conflict", "notFound"].includes(result.error.kind)) must(result);
  return result.ok;
}
