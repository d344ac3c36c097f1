/** The six CustomResourceDefinitions, generated from the zod schemas. */
import type { z } from "zod";
import { backendRuntimeSchema } from "../backend-runtime.ts";
import { GROUP, VERSION } from "../group.ts";
import { hostSchema } from "../host.ts";
import { hostJoinRequestSchema } from "../host-join-request.ts";
import { inferenceReplicaSchema } from "../inference-replica.ts";
import { inferenceServiceSchema } from "../inference-service/index.ts";
import {
  BACKEND_RUNTIMES,
  HOST_JOIN_REQUESTS,
  HOSTS,
  INFERENCE_REPLICAS,
  INFERENCE_SERVICES,
  MODELS,
} from "../kinds.ts";
import type { ApiKind } from "../metadata.ts";
import { modelSchema } from "../model.ts";
import { HOST_NAME_MAX, REPLICA_NAME_MAX, SERVICE_NAME_MAX } from "../names.ts";
import {
  backendRuntimeColumns,
  hostColumns,
  joinRequestColumns,
  modelColumns,
  type PrinterColumn,
  replicaColumns,
  serviceColumns,
} from "./columns.ts";
import { type CelRule, type StructuralSchema, toStructuralSchema } from "./structural.ts";

/** Validation rules at the root of each kind. Only root rules can validate metadata.name. */
const modelRootRules: readonly CelRule[] = [];

const serviceRootRules: readonly CelRule[] = [
  {
    rule: `size(self.metadata.name) <= ${SERVICE_NAME_MAX}`,
    message: `metadata.name of an InferenceService may have at most ${SERVICE_NAME_MAX} characters: Services and replicas are named after it`,
  },
  {
    rule: "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    message:
      "metadata.name of an InferenceService must start with a letter and hold only a-z, 0-9 and '-', no dots: it becomes the name of a Service",
  },
];

const replicaRootRules: readonly CelRule[] = [
  {
    rule: `size(self.metadata.name) <= ${REPLICA_NAME_MAX} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')`,
    message: `metadata.name of an InferenceReplica must be a DNS label of at most ${REPLICA_NAME_MAX} characters that starts with a letter: it is used as a label value`,
  },
];

const backendRuntimeRootRules: readonly CelRule[] = [
  {
    rule: "size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    message:
      "metadata.name of a BackendRuntime must be a DNS label of at most 63 characters (a-z, 0-9 and '-', no dots): hosts report it as the name of a runtime",
  },
];

const hostRootRules: readonly CelRule[] = [
  {
    rule: `size(self.metadata.name) <= ${HOST_NAME_MAX} && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,
    message: `metadata.name of a Host must be a DNS label of at most ${HOST_NAME_MAX} characters (a-z, 0-9 and '-', no dots): it is used as a label value`,
  },
];

const joinRequestRootRules: readonly CelRule[] = [
  {
    rule: "self.metadata.name.matches('^[0-9a-f]{64}$')",
    message:
      "metadata.name of a HostJoinRequest is the public X25519 key of the machine: 64 hexadecimal digits",
  },
];

interface Definition {
  readonly kind: ApiKind<unknown>;
  readonly schema: z.ZodObject;
  readonly shortName: string;
  readonly description: string;
  readonly columns: readonly PrinterColumn[];
  readonly rules: readonly CelRule[];
  readonly scale?: true;
  readonly selectable?: readonly string[];
}

export const definitions: readonly Definition[] = [
  {
    kind: MODELS,
    schema: modelSchema,
    shortName: "mdl",
    description:
      "Model describes the source and the requirements of weights. Its status describes the weights.",
    columns: modelColumns,
    rules: modelRootRules,
    selectable: [".spec.familyName"],
  },
  {
    kind: INFERENCE_SERVICES,
    schema: inferenceServiceSchema,
    shortName: "isvc",
    description: "InferenceService serves a Model under a cluster Service, on hosts or in pods.",
    columns: serviceColumns,
    rules: serviceRootRules,
    scale: true,
  },
  {
    kind: BACKEND_RUNTIMES,
    schema: backendRuntimeSchema,
    shortName: "br",
    description:
      "BackendRuntime defines an inference engine: its image, command, probes and gauges for pods, and its program for hosts. Services select it with spec.backendRuntime.",
    columns: backendRuntimeColumns,
    rules: backendRuntimeRootRules,
  },
  {
    kind: INFERENCE_REPLICAS,
    schema: inferenceReplicaSchema,
    shortName: "irep",
    description:
      "InferenceReplica is an engine of a service on a host, the counterpart of a Pod. The controller creates it, and the agent of the host runs it.",
    columns: replicaColumns,
    rules: replicaRootRules,
    selectable: [".spec.template.hostName"],
  },
  {
    kind: HOSTS,
    schema: hostSchema,
    shortName: "mbhost",
    description:
      "Host is a machine that runs engines natively. The operator sets its spec, and its agent reports its status.",
    columns: hostColumns,
    rules: hostRootRules,
  },
  {
    kind: HOST_JOIN_REQUESTS,
    schema: hostJoinRequestSchema,
    shortName: "mbjoin",
    description:
      "HostJoinRequest is the request of a machine with the join token of a group to become a Host. Its name is the public key of the machine.",
    columns: joinRequestColumns,
    rules: joinRequestRootRules,
  },
];

/** A CustomResourceDefinition for the API server. */
export interface RenderedDefinition {
  readonly apiVersion: "apiextensions.k8s.io/v1";
  readonly kind: "CustomResourceDefinition";
  readonly metadata: { readonly name: string };
  readonly spec: Record<string, unknown>;
}

/** All definitions, to apply or to write to a file. */
export function customResourceDefinitions(): RenderedDefinition[] {
  return definitions.map(toCrd);
}

/** Schema of a kind with its root rules, as `kubectl explain` prints it. */
export function rootSchema({ schema, description, rules }: Definition): StructuralSchema {
  const { properties = {}, ...root } = toStructuralSchema(schema);
  const { spec = {}, status = {} } = properties;
  return {
    ...root,
    description,
    properties: {
      apiVersion: { type: "string", description: `API version of the object: ${GROUP}/${VERSION}.` },
      kind: { type: "string", description: "Kind of the object." },
      metadata: { type: "object" },
      spec,
      status,
    },
    // Required at the root, because a transition rule below spec does not run when spec itself is removed.
    required: ["spec"],
    // The server drops an empty list, so every later apply of the same file would report a difference.
    ...(rules.length === 0 ? {} : { "x-kubernetes-validations": [...rules] }),
  };
}

function toCrd(definition: Definition): RenderedDefinition {
  const { kind, shortName } = definition;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${kind.plural}.${kind.group}` },
    spec: {
      group: kind.group,
      scope: kind.namespaced ? "Namespaced" : "Cluster",
      names: {
        kind: kind.kind,
        listKind: `${kind.kind}List`,
        plural: kind.plural,
        singular: kind.kind.toLowerCase(),
        shortNames: [shortName],
        categories: ["metalbridge"],
      },
      versions: [toVersion(definition)],
    },
  };
}

function toVersion(definition: Definition): Record<string, unknown> {
  const { kind, columns, selectable, scale } = definition;
  return {
    name: kind.version,
    served: true,
    storage: true,
    additionalPrinterColumns: columns,
    selectableFields: selectable === undefined ? undefined : selectable.map((jsonPath) => ({ jsonPath })),
    subresources: {
      status: {},
      scale: scale === true ? scalePaths : undefined,
    },
    schema: { openAPIV3Schema: rootSchema(definition) },
  };
}

const scalePaths = {
  specReplicasPath: ".spec.replicas",
  statusReplicasPath: ".status.replicas",
  labelSelectorPath: ".status.selector",
};
