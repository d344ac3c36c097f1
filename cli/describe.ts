/** `metalbridge describe`: shows the details of one replica, service or host. */
import type { Command } from "commander";
import { MetalbridgeError } from "../src/api/errors.ts";
import { LABEL_SERVICE, LABEL_SERVICE_UID, NAMESPACE_HOSTS } from "../src/api/group.ts";
import type { Host } from "../src/api/host.ts";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import type { InferenceService } from "../src/api/inference-service/index.ts";
import { mainModelOf } from "../src/api/inference-service/roles.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../src/api/kinds.ts";
import { EVENTS, LEASES, PODS } from "../src/kube/kinds.ts";
import type { KubeEvent } from "../src/kube/objects.ts";
import type { KubeObject } from "../src/kube/types.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import { findIfPresent, findObject, listAll, notFound } from "./cluster/find.ts";
import {
  addNamespacedFlags,
  type ClusterFlags,
  type OutputFormat,
  outputFlag,
  parseName,
} from "./cluster/flags.ts";
import { splitKind } from "./cluster/kinds.ts";
import { type HostDetails, renderHost } from "./describe/host.ts";
import { type ReplicaFacts, renderReplica } from "./describe/replica.ts";
import { renderServiceDetails, type ServiceFacts } from "./describe/service.ts";
import { printResult } from "./program/output.ts";

type DescribeFlags = ClusterFlags & { readonly output: OutputFormat };

/** Options and action of the verb. */
export function configureDescribe(command: Command): void {
  addNamespacedFlags(command)
    .argument(
      "<object>",
      "name of a replica or a service; use irep/NAME or isvc/NAME if the name is ambiguous, and host NAME for a host",
      parseFirst,
    )
    .argument("[host]", "name of the Host, after the word host", parseName)
    .addOption(outputFlag())
    .action((first: string, second: string | undefined, flags: DescribeFlags) => {
      const target = parseDescribeTarget(second === undefined ? first : `${first}/${second}`);
      if (second !== undefined && target.kind === "either")
        command.error(`error: unknown kind ${first}: use host, isvc or irep`);
      return describe(target, flags);
    });
}

function parseFirst(text: string): string {
  parseName(parseDescribeTarget(text).name);
  return text;
}

async function describe(name: TargetName, flags: DescribeFlags): Promise<void> {
  await withCluster("describe", flags, async (cluster) => {
    const show = <T>(facts: T, render: (facts: T, nowMs: number) => string) =>
      printResult(flags.output, facts, () => render(facts, Date.now()));
    const target = await findDescribeTarget(cluster, name);
    switch (target.kind) {
      case "replica":
        return show(await readReplicaFacts(cluster, target.replica), renderReplica);
      case "service":
        return show(await readServiceFacts(cluster, target.service), renderServiceDetails);
      case "host":
        return show(await readHostFacts(cluster, target.host), renderHost);
      default:
        return target satisfies never;
    }
  });
}

/** Related objects may be missing, or forbidden. */
async function readReplicaFacts(cluster: Cluster, replica: InferenceReplica): Promise<ReplicaFacts> {
  const { hostName, serviceName } = replica.spec.template;
  const [service, host, events] = await Promise.all([
    ifAllowed(findIfPresent(cluster, INFERENCE_SERVICES, serviceName)),
    ifAllowed(findIfPresent(cluster, HOSTS, hostName)),
    eventsOf(cluster, replica),
  ]);
  const isOwner = service?.metadata.uid === replica.spec.template.serviceUid;
  return { replica, service: isOwner ? service : undefined, host, events };
}

async function readServiceFacts(cluster: Cluster, service: InferenceService): Promise<ServiceFacts> {
  const { namespace } = cluster;
  const [replicas, pods, model, events] = await Promise.all([
    listAll(cluster, INFERENCE_REPLICAS, {
      namespace,
      labelSelector: `${LABEL_SERVICE}=${service.metadata.name}`,
    }),
    ifAllowed(
      listAll(cluster, PODS, { namespace, labelSelector: `${LABEL_SERVICE_UID}=${service.metadata.uid}` }),
    ),
    ifAllowed(findIfPresent(cluster, MODELS, mainModelOf(service.spec))),
    eventsOf(cluster, service),
  ]);
  const own = replicas.filter(({ spec }) => spec.template.serviceUid === service.metadata.uid);
  return { service, replicas: own, pods: pods ?? [], model, events };
}

async function readHostFacts(cluster: Cluster, host: Host): Promise<HostDetails> {
  const { name } = host.metadata;
  const [lease, replicas, events] = await Promise.all([
    ifAllowed(findIfPresent({ ...cluster, namespace: NAMESPACE_HOSTS }, LEASES, name)),
    ifAllowed(listAll(cluster, INFERENCE_REPLICAS, { fieldSelector: `spec.template.hostName=${name}` })),
    eventsOf(cluster, host),
  ]);
  return { host, lease, replicas: replicas ?? "forbidden", events };
}

async function eventsOf(
  cluster: Cluster,
  { metadata }: KubeObject,
): Promise<readonly KubeEvent[] | "forbidden"> {
  // Events about objects without a namespace are in the namespace `default`.
  const { namespace = "default" } = metadata;
  const fieldSelector = `regarding.uid=${metadata.uid}`;
  return (await ifAllowed(listAll(cluster, EVENTS, { namespace, fieldSelector }))) ?? "forbidden";
}

async function ifAllowed<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof MetalbridgeError && error.code === "ApiForbidden") return undefined;
    throw error;
  }
}

interface TargetName {
  readonly kind: "replica" | "service" | "host" | "either";
  readonly name: string;
}

type DescribeTarget =
  | { readonly kind: "replica"; readonly replica: InferenceReplica }
  | { readonly kind: "service"; readonly service: InferenceService }
  | { readonly kind: "host"; readonly host: Host };

/** `chat`, `irep/chat-0-abc`, `isvc/chat`, `host/mini-1`. Pure. */
export function parseDescribeTarget(text: string): TargetName {
  const { kind, name = text } = splitKind(text) ?? {};
  if (kind === INFERENCE_REPLICAS) return { kind: "replica", name };
  if (kind === INFERENCE_SERVICES) return { kind: "service", name };
  if (kind === HOSTS) return { kind: "host", name };
  return { kind: "either", name: text };
}

/** Throws ReplicaNotFound, ServiceNotFound, HostNotFound or NameAmbiguous. */
async function findDescribeTarget(cluster: Cluster, { kind, name }: TargetName): Promise<DescribeTarget> {
  if (kind === "replica") return { kind, replica: await findObject(cluster, INFERENCE_REPLICAS, name) };
  if (kind === "service") return { kind, service: await findObject(cluster, INFERENCE_SERVICES, name) };
  if (kind === "host") return { kind, host: await findObject(cluster, HOSTS, name) };
  const [replica, service] = await Promise.all([
    findIfPresent(cluster, INFERENCE_REPLICAS, name),
    findIfPresent(cluster, INFERENCE_SERVICES, name),
  ]);
  if (replica !== undefined && service !== undefined) {
    throw new MetalbridgeError("NameAmbiguous", `${name} is a replica and a service`, {
      summary: "name the kind",
      command: `metalbridge describe irep/${name} -n ${cluster.namespace}`,
    });
  }
  if (replica !== undefined) return { kind: "replica", replica };
  if (service !== undefined) return { kind: "service", service };
  // Names of replicas end with an ordinal and a hash.
  return /-\d+-[0-9a-z]{8,}$/.test(name)
    ? notFound(cluster, INFERENCE_REPLICAS, name)
    : notFound(cluster, INFERENCE_SERVICES, name);
}
