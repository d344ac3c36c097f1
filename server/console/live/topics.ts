/** Topics of the stream: parsed names, and the rows that a changed object concerns. Pure. */
import { LABEL_SERVICE, LABEL_WORKER_OF } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { allModelsOf } from "../../../src/api/inference-service/roles.ts";
import { nodeOfReport } from "../../../src/api/node-report.ts";
import type { ChangeOf, ClusterChange } from "../../../src/cluster/informers.ts";
import type { Topic } from "../../../src/console/protocol.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";

export const LIST_TOPICS = ["hosts", "services", "models", "farm", "queues"] as const;

export type ParsedTopic =
  | { readonly at: (typeof LIST_TOPICS)[number] }
  | { readonly at: "service" | "model"; readonly namespace: string; readonly name: string }
  | { readonly at: "host" | "node"; readonly name: string };

const NAME = /^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$/;

/** Undefined if there is no such topic. */
export function parseTopic(topic: string): ParsedTopic | undefined {
  const list = LIST_TOPICS.find((one) => one === topic);
  if (list !== undefined) return { at: list };
  const [at, ...names] = topic.split("/");
  if (!names.every((name) => NAME.test(name))) return undefined;
  const [first = "", second = ""] = names;
  if ((at === "service" || at === "model") && names.length === 2)
    return { at, namespace: first, name: second };
  return (at === "host" || at === "node") && names.length === 1 ? { at, name: first } : undefined;
}

/** A row that must be computed again. */
export type Mark = readonly [topic: Topic, key: string];

export const FARM_KEY = "farm";
const FARM: Mark = ["farm", FARM_KEY];

/** `modelsOf` has the Models of a service by its key. */
export function marksOf(
  change: ClusterChange,
  modelsOf: (service: string) => readonly string[],
): readonly Mark[] {
  switch (change.name) {
    case "hosts":
      return hostMarks(change);
    case "nodes":
      return nodeMarks(change.key);
    case "reports":
      return nodeMarks(nodeOfReport(change.key.slice(change.key.indexOf("/") + 1)));
    case "replicas":
      return replicaMarks(change, modelsOf);
    case "pods":
      return podMarks(change);
    case "services":
      return serviceMarks(change);
    case "models":
      return [
        ["models", change.key],
        [`model/${change.key}` as Topic, "model"],
      ];
    case "benchmarks":
    case "leases":
    case "slices":
      return [];
    default:
      return change satisfies never;
  }
}

function hostMarks({ key, before, after }: ChangeOf<"hosts">): readonly Mark[] {
  const models = new Set([before, after].flatMap((host) => (host === undefined ? [] : prefetchedOn(host))));
  return [
    ["hosts", `host/${key}`],
    [`host/${key}`, "host"],
    FARM,
    ...[...models].map((model): Mark => ["models", model]),
  ];
}

/** `namespace/name` of the Models that a host prefetches. */
export function prefetchedOn({ status }: Host): readonly string[] {
  return (status?.prefetch?.models ?? []).flatMap(({ model }) => model ?? []);
}

function nodeMarks(name: string | undefined): readonly Mark[] {
  return name === undefined ? [] : [["hosts", `node/${name}`], [`node/${name}`, "node"], FARM];
}

function replicaMarks(
  { key, before, after }: ChangeOf<"replicas">,
  modelsOf: (service: string) => readonly string[],
): readonly Mark[] {
  const replica = after ?? before;
  if (replica === undefined) return [];
  const service = serviceOfReplica(replica);
  const host = replica.spec.template.hostName;
  const isDownload = [before, after].some((one) => one?.status?.phase === "Fetching");
  return [
    ["hosts", `host/${host}`],
    ["services", service],
    [`host/${host}`, `replica/${key}`],
    [`service/${service}` as Topic, `replica/${replica.metadata.name}`],
    FARM,
    ...(isDownload ? modelsOf(service).map((model): Mark => ["models", model]) : []),
  ];
}

export function serviceOfReplica({ metadata, spec }: InferenceReplica): string {
  return `${metadata.namespace}/${spec.template.serviceName}`;
}

function podMarks({ key, before, after }: ChangeOf<"pods">): readonly Mark[] {
  const nodes = new Set([before, after].flatMap((pod) => pod?.spec.nodeName ?? []));
  const services = new Set([before, after].flatMap((pod) => (pod && serviceOfPod(pod)) ?? []));
  const name = key.slice(key.indexOf("/") + 1);
  return [
    ...[...nodes].flatMap((node): Mark[] => [
      ["hosts", `node/${node}`],
      [`node/${node}`, `pod/${key}`],
    ]),
    ...[...services].flatMap((service): Mark[] => [
      ["services", service],
      [`service/${service}` as Topic, `pod/${name}`],
    ]),
    FARM,
  ];
}

/** The workers of a group belong to its service too. */
export function serviceOfPod({ metadata: { namespace, labels = {} } }: Pod): string | undefined {
  const service = labels[LABEL_SERVICE] ?? labels[LABEL_WORKER_OF];
  return service === undefined ? undefined : `${namespace}/${service}`;
}

function serviceMarks({ key, before, after }: ChangeOf<"services">): readonly Mark[] {
  const models = [before, after].map((service) => (service === undefined ? [] : modelKeysOf(service)));
  const [old = [], current = []] = models;
  // Only services that begin or cease to use a Model change its row.
  const differing = new Set(
    [...old, ...current].filter((key) => old.includes(key) !== current.includes(key)),
  );
  return [
    ["services", key],
    [`service/${key}` as Topic, "service"],
    FARM,
    ...[...differing].map((model): Mark => ["models", model]),
  ];
}

/** `namespace/name` of the Models that a service uses. */
export function modelKeysOf({ metadata, spec }: InferenceService): readonly string[] {
  return allModelsOf(spec).map((name) => `${metadata.namespace}/${name}`);
}
