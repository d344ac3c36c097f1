/** The tables of the topics that some stream watches. */
import type { MetalbridgeError } from "../../../src/api/errors.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../../src/api/kinds.ts";
import { keyOf } from "../../../src/api/names.ts";
import type { Topic } from "../../../src/console/protocol.ts";
import { NODES, PODS } from "../../../src/kube/kinds.ts";
import type { Kind, KubeObject } from "../../../src/kube/types.ts";
import type { Log } from "../../../src/util/ports.ts";
import { createFarmTable, type FarmHistory } from "./farm.ts";
import {
  hostSource,
  type LiveState,
  machineSigns,
  modelSource,
  namespaceOfKey,
  serviceSource,
} from "./lists.ts";
import { type ReadQueues, watchQueues } from "./queues.ts";
import { type RowSource, Table, type TopicTable } from "./table.ts";
import type { ParsedTopic } from "./topics.ts";

export interface TableParts {
  readonly state: LiveState;
  readonly log: Log;
  readonly history: FarmHistory;
  readonly readQueues: ReadQueues;
}

type OnWork = (isOtherRefusal: boolean) => void;

export interface OpenTable {
  readonly table: TopicTable;
  /** Marks rows that change only with time. */
  readonly recheck?: () => void;
  /** Why no reader gets rows now. */
  readonly refusal?: () => MetalbridgeError | undefined;
  readonly stop?: () => void;
}

/**
 * `onWork` is called when the table has marked rows that no change of an object concerns, with true if the refusal is another
 * one than before.
 */
export function openTable(topic: ParsedTopic, parts: TableParts, onWork: OnWork): OpenTable {
  const { state } = parts;
  switch (topic.at) {
    case "hosts":
      return openHosts(state);
    case "services":
      return { table: new Table(serviceSource(state)) };
    case "models":
      return { table: new Table(modelSource(state)) };
    case "farm":
      return { table: createFarmTable(state, parts.history) };
    case "queues":
      return openQueues(parts, onWork);
    case "service":
    case "model":
    case "host":
    case "node":
      return { table: new Table(detailSource(topic, state)) };
    default:
      return topic satisfies never;
  }
}

/** A topic of the protocol, by its parts. */
export function topicText(topic: ParsedTopic): Topic {
  if (!("name" in topic)) return topic.at;
  if ("namespace" in topic) return `${topic.at}/${topic.namespace}/${topic.name}`;
  return `${topic.at}/${topic.name}`;
}

function openHosts(state: LiveState): OpenTable {
  const table = new Table(hostSource(state));
  let signs = machineSigns(state);
  return {
    table,
    recheck: () => {
      const before = signs;
      signs = machineSigns(state);
      for (const [key, sign] of signs) if (before.get(key) !== sign) table.mark(key);
    },
  };
}

function openQueues({ readQueues, state: { clock }, log }: TableParts, onWork: OnWork): OpenTable {
  const { source, ...watched } = watchQueues(readQueues, { clock, log }, (isOtherRefusal) => {
    table.markAll();
    onWork(isOtherRefusal);
  });
  const table = new Table(source);
  return { table, ...watched };
}

type NamedTopic = Extract<ParsedTopic, { readonly name: string }>;

/** The rows of topics of one object: whole objects of the API. */
function detailSource(topic: NamedTopic, state: LiveState): RowSource {
  const { reads, lookup } = state;
  switch (topic.at) {
    case "service": {
      const { namespace, name } = topic;
      const key = `${namespace}/${name}`;
      return {
        keys: () => [
          "service",
          ...lookup.replicasOf(key).map(({ metadata }) => `replica/${metadata.name}`),
          ...lookup.podsOf(key).map(({ metadata }) => `pod/${metadata.name}`),
        ],
        rowOf: (row) => {
          const part = `${namespace}/${row.slice(row.indexOf("/") + 1)}`;
          if (row === "service") return whole(INFERENCE_SERVICES, reads.services.get(key));
          if (row.startsWith("pod/")) return whole(PODS, reads.pods.get(part));
          return whole(INFERENCE_REPLICAS, reads.replicas.get(part));
        },
        rightOf: (row) =>
          row === "service" ? undefined : { kind: row.startsWith("pod/") ? "pods" : "replicas", namespace },
      };
    }
    case "host":
      return machineSource(topic, state);
    case "node":
      return machineSource(topic, state);
    case "model": {
      const key = `${topic.namespace}/${topic.name}`;
      return onlyRow("model", () => whole(MODELS, reads.models.get(key)));
    }
    default:
      return topic satisfies never;
  }
}

function onlyRow(key: string, rowOf: () => object | undefined): RowSource {
  return { keys: () => [key], rowOf, rightOf: () => undefined };
}

/** The machine, and `replica/NAMESPACE/NAME` or `pod/NAMESPACE/NAME`. */
function machineSource(
  { at, name }: Extract<NamedTopic, { readonly at: "host" | "node" }>,
  { reads, lookup }: LiveState,
): RowSource {
  const part = at === "host" ? "replica" : "pod";
  const parts = (): readonly KubeObject[] => (at === "host" ? lookup.replicasOn(name) : lookup.podsOn(name));
  return {
    keys: () => [at, ...parts().map(({ metadata }) => `${part}/${keyOf(metadata)}`)],
    rowOf: (row) => {
      const key = row.slice(row.indexOf("/") + 1);
      if (row === at)
        return at === "host" ? whole(HOSTS, reads.hosts.get(name)) : whole(NODES, reads.nodes.get(name));
      return at === "host"
        ? whole(INFERENCE_REPLICAS, reads.replicas.get(key))
        : whole(PODS, reads.pods.get(key));
    },
    rightOf: (row) =>
      row === at
        ? undefined
        : {
            kind: at === "host" ? "replicas" : "pods",
            namespace: namespaceOfKey(row.slice(row.indexOf("/") + 1)),
          },
  };
}

/** Items of a list have neither apiVersion nor kind. */
function whole<T extends KubeObject>(
  { group, version, kind }: Kind<T>,
  object: T | undefined,
): object | undefined {
  if (object === undefined) return undefined;
  const { managedFields: _, ...metadata } = object.metadata;
  return { apiVersion: group === "" ? version : `${group}/${version}`, kind, ...object, metadata };
}
