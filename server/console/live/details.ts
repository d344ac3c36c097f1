/** The rows of topics of one object: whole objects of the API. */
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../../src/api/kinds.ts";
import { keyOf } from "../../../src/api/names.ts";
import { NODES, PODS } from "../../../src/kube/kinds.ts";
import type { Kind, KubeObject } from "../../../src/kube/types.ts";
import { type LiveState, namespaceOfKey } from "./lists.ts";
import type { RowSource } from "./table.ts";
import type { ParsedTopic } from "./topics.ts";

type NamedTopic = Extract<ParsedTopic, { readonly name: string }>;

export function detailSource(topic: NamedTopic, state: LiveState): RowSource {
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
