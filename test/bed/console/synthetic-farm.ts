/**
 * Hosts, nodes, models, services and replicas on a real API server, without agents and without a controller: objects with
 * the statuses that these would write. Leases are renewed, so that hosts count as seen. For the looks of pages and for their
 * speed: 2 hosts, 20, or 1,000 with 5,000 services (25,000 writes, about a minute).
 */
import { MANAGER_CONTROLLER, NAMESPACE_HOSTS, NAMESPACE_SYSTEM } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceService, InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../../src/api/kinds.ts";
import type { Model } from "../../../src/api/model.ts";
import { connect, type KubeConnection } from "../../../src/kube/client/connect.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import { LEASES, NAMESPACES as NAMESPACE_KIND, NODES } from "../../../src/kube/kinds.ts";
import type { Lease } from "../../../src/kube/objects.ts";
import { objectPath } from "../../../src/kube/paths.ts";
import type { Kind, KubeClient, KubeObject } from "../../../src/kube/types.ts";
import type { Node } from "../../../src/kube/workload-objects.ts";
import { renewLease } from "../../controller/agent-side.ts";
import { must } from "../must.ts";
import { writeClients } from "./synthetic-clients.ts";
import { syntheticHost, syntheticNode } from "./synthetic-hosts.ts";
import { syntheticModels, syntheticService } from "./synthetic-services.ts";
import { awkwardTexts, plainTexts } from "./synthetic-texts.ts";

export interface SyntheticFarmOptions {
  readonly hosts: number;
  readonly services: number;
  /** Linux nodes with GPUs. By default none. */
  readonly nodes?: number;
  /** Names and messages that people may look at, without those that tempt a page to break. */
  readonly isPlain?: boolean;
  /** Keys and usage of the gateway. */
  readonly hasClients?: boolean;
}

export interface SyntheticName {
  readonly name: string;
  readonly namespace: string;
  readonly mode: string;
}

export interface SyntheticFarm extends AsyncDisposable {
  readonly hosts: readonly string[];
  readonly services: readonly SyntheticName[];
  /** Writes a service's status, merged with the one before. */
  readonly setService: (index: number, status: Partial<InferenceServiceStatus>) => Promise<void>;
  /** As the API server has them. */
  readonly written: readonly InferenceService[];
}

const AT_ONCE = 24;
const TIMEOUT_MS = 60_000;
/** A host counts as seen for 90 s after a renewal. */
const RENEW_MS = 30_000;
/** Age of the last report of a stale host. */
const STALE_FOR_MS = 20 * 60_000;

type Described = { readonly metadata: { readonly name: string; readonly namespace?: string } };

/** Resolves once all is written. Disposal ends renewals and changes; the objects stay. */
export async function startSyntheticFarm(
  kubeconfigPath: string,
  { hosts, services, nodes = 0, isPlain = false, hasClients = false }: SyntheticFarmOptions,
): Promise<SyntheticFarm> {
  const connection = await connect({ kubeconfigPath, maxRequests: AT_ONCE });
  const client = createClient(connection, { timeoutMs: TIMEOUT_MS });
  const texts = isPlain ? plainTexts : awkwardTexts;
  const nowIso = new Date().toISOString();
  const machines = Array.from({ length: hosts }, (_, index) => syntheticHost(index, texts));
  const names = machines.map(({ object }) => object.metadata.name);
  await createNamespaces(client, texts.namespaces);
  const claimed = new Array<number>(hosts).fill(0);
  const written: InferenceService[] = [];
  await atOnce(nodes, async (index) => void must(await client.create(NODES, syntheticNode(index) as Node)));
  const models = syntheticModels(names, nowIso, texts);
  await atOnce(models.length, async (index) => {
    const { object, status } = models[index] as (typeof models)[number];
    await writeObject<Model>(connection, MODELS, object, status);
  });
  await atOnce(services, async (index) => {
    const { object, status, replicas } = syntheticService(index, names, minutesAgo(17 * (index % 90)), texts);
    const service = await writeObject<InferenceService>(connection, INFERENCE_SERVICES, object, status);
    written[index] = service;
    for (const replica of replicas) {
      claimed[replica.host] = (claimed[replica.host] ?? 0) + replica.claimBytes;
      const made = replica.object(service.metadata.uid ?? "");
      await writeObject(connection, INFERENCE_REPLICAS, made, replica.status);
    }
  });
  await atOnce(hosts, async (index) => {
    const machine = machines[index] as (typeof machines)[number];
    const budgetBytes = machine.budgetBytes - 4 * 2 ** 30;
    const status = machine.statusWith(Math.min(claimed[index] ?? 0, budgetBytes), minutesAgo(41 * index));
    await writeObject<Host>(connection, HOSTS, machine.object, status);
  });
  if (hasClients) await writeClients(client, written);
  const seen = machines.filter(({ isStale }) => !isStale).map(({ object }) => object.metadata.name);
  for (const { isStale, object } of machines)
    if (isStale) must(await client.create(LEASES, staleLease(object.metadata.name)));
  must(await client.create(LEASES, leadersLease()));
  const renew = () => atOnce(seen.length, (index) => renewLease(client, seen[index] ?? ""));
  await renew();
  // A renewal that fails is made up for by the next.
  const renewing = setInterval(() => void renew().catch(() => {}), RENEW_MS);
  const setService = async (index: number, status: Partial<InferenceServiceStatus>) => {
    const before = written[index];
    if (before === undefined) throw new Error(`there is no service ${index}`);
    written[index] = await putStatus(connection, INFERENCE_SERVICES, before, { ...before.status, ...status });
  };
  return {
    hosts: names,
    services: written.map(({ metadata: { name, namespace = "default" }, status }) => ({
      name,
      namespace,
      mode: status?.mode ?? "chat",
    })),
    setService,
    written,
    [Symbol.asyncDispose]: async () => {
      clearInterval(renewing);
      connection.close();
    },
  };
}

/** The Lease of a controller that leads for as long as any test runs. */
function leadersLease(): Lease {
  const renewTime = new Date(Date.now() + 86_400_000).toISOString().replace("Z", "000Z");
  const metadata = { name: MANAGER_CONTROLLER, namespace: NAMESPACE_SYSTEM };
  return { metadata, spec: { holderIdentity: "synthetic", leaseDurationSeconds: 15, renewTime } };
}

function minutesAgo(minutes: number): string {
  return new Date(Date.now() - minutes * 60_000).toISOString();
}

/** The agent has renewed it once. */
function staleLease(host: string): Lease {
  const renewTime = new Date(Date.now() - STALE_FOR_MS).toISOString().replace("Z", "000Z");
  const spec = { holderIdentity: `${host}_test`, leaseDurationSeconds: 40, renewTime };
  return { metadata: { name: host, namespace: NAMESPACE_HOSTS }, spec };
}

async function createNamespaces(client: KubeClient, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const made = await client.create(NAMESPACE_KIND, { metadata: { name } });
    if (!made.ok && made.error.kind !== "alreadyExists") must(made);
  }
}

/** The API server ignores the status of what is created. */
async function writeObject<T extends KubeObject>(
  connection: KubeConnection,
  kind: Kind<T>,
  object: Described,
  status: object,
): Promise<T> {
  const { name, namespace } = object.metadata;
  const path = objectPath(kind, { name, namespace }).slice(0, -name.length - 1);
  const body = JSON.stringify(object);
  const made = must(await connection.request({ method: "POST", path, body, timeoutMs: TIMEOUT_MS }));
  return putStatus(connection, kind, JSON.parse(made) as T, status);
}

async function putStatus<T extends KubeObject>(
  connection: KubeConnection,
  kind: Kind<T>,
  object: T,
  status: object,
): Promise<T> {
  const path = objectPath(kind, object.metadata, "status");
  const body = JSON.stringify({ ...object, status });
  const put = must(await connection.request({ method: "PUT", path, body, timeoutMs: TIMEOUT_MS }));
  return JSON.parse(put) as T;
}

async function atOnce(total: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < total) await work(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
