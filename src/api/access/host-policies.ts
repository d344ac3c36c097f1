/** Admission policies that restrict the account of each host to its own objects, as NodeRestriction does for kubelets. */
import {
  AGENT_REPORTER,
  ANNOTATION_ADDRESSES,
  API_VERSION,
  FINALIZER_ENGINE,
  GROUP,
  LABEL_HOST,
  LABEL_SLICE_MANAGED_BY,
  NAMESPACE_HOSTS,
  PORT_NAME,
  SLICE_MANAGED_BY,
  VERSION,
} from "../group.ts";
import { ACCOUNT_PREFIX, CREDENTIAL_SECRET_PREFIX, HOST_TOKEN_SECONDS } from "./account.ts";
import {
  type AccessObject,
  celEmpty,
  celField,
  celUnchanged,
  IS_STATUS,
  type Policy,
  policyObjects,
  WRITES,
} from "./policy.ts";

/** Fields of metadata that a host may not set on its objects. */
export const GUARDED_METADATA = ["labels", "annotations", "ownerReferences", "finalizers"];

/** A client may send managedFields of any size with an object. Those that the API server writes itself are small. */
export const SMALL_FIELDS =
  "object.metadata.?managedFields.orValue([]).all(entry, size(entry.fieldsV1) <= 16 && entry.fieldsV1.all(one, size(one) <= 32 && " +
  "size(entry.fieldsV1[one]) <= 12 && entry.fieldsV1[one].all(two, size(two) <= 64 && size(entry.fieldsV1[one][two]) <= 16 && " +
  "entry.fieldsV1[one][two].all(three, size(three) <= 128 && size(entry.fieldsV1[one][two][three]) == 0)))) && " +
  "size(object.metadata.?managedFields.orValue([])) <= 6";

function sameStatus(path: string): string {
  return `${celField("object", `status.${path}`)} == ${celField("oldObject", `status.${path}`)}`;
}

function sameConditions(...types: readonly string[]): string {
  const of = (object: string, type: string) =>
    `${object}.?status.?conditions.orValue([]).filter(one, one.type == '${type}')`;
  return types.map((type) => `${of("object", type)} == ${of("oldObject", type)}`).join(" && ");
}

function isAlways(field: string, value: string): string {
  return `object.?${field}.orValue('') == ${value} && (request.operation == 'CREATE' || oldObject.?${field}.orValue('') == ${value})`;
}

const policies: readonly Policy[] = [
  {
    name: "metalbridge-host-hosts",
    on: [GROUP, VERSION, "hosts", "hosts/status"],
    operations: WRITES,
    validations: [
      {
        expression: "(request.operation == 'DELETE' ? oldObject : object).metadata.name == variables.host",
        message: "a host may write its own Host only",
      },
      {
        // RBAC decides whether a host may create its Host (`metalbridge agent --register`).
        expression: `request.operation == 'CREATE' || (request.operation == 'UPDATE' && ${IS_STATUS})`,
        message: "a host may write the status of its Host only",
      },
      {
        expression: `request.operation != 'UPDATE' || (${[
          "reachableChanges",
          "prefetch.wanted",
          "benchmark.order",
        ]
          .map((path) => sameStatus(path))
          .join(" && ")} && ${sameConditions("Reachable", "Lost", "Flapping")})`,
        message:
          "a host may not change the fields and conditions that the controller writes: reachableChanges, prefetch.wanted, benchmark.order, Reachable, Lost, Flapping",
      },
    ],
  },
  {
    name: "metalbridge-host-replicas",
    on: [GROUP, VERSION, "inferencereplicas", "inferencereplicas/status"],
    operations: WRITES,
    validations: [
      {
        expression: "request.operation == 'UPDATE'",
        message: "a host may neither create nor delete InferenceReplicas",
      },
      {
        expression: "request.operation != 'UPDATE' || oldObject.spec.template.hostName == variables.host",
        message: "a host may write its own InferenceReplicas only",
      },
      {
        expression: `request.operation != 'UPDATE' || ${IS_STATUS} || object.spec == oldObject.spec`,
        message: "a host may not change the spec of an InferenceReplica",
      },
      {
        expression: `request.operation != 'UPDATE' || (${celUnchanged("labels", "annotations", "ownerReferences")})`,
        message: "a host may not change labels, annotations or owner references of an InferenceReplica",
      },
      {
        expression:
          `request.operation != 'UPDATE' || ${IS_STATUS} || ` +
          `(variables.after != variables.before && has(oldObject.metadata.deletionTimestamp) && variables.after == variables.before.filter(name, name != '${FINALIZER_ENGINE}'))`,
        message: `a host may only remove the finalizer ${FINALIZER_ENGINE} of a deleted InferenceReplica`,
      },
      {
        expression: `request.operation != 'UPDATE' || ${sameConditions("HostReachable")}`,
        message: "a host may not change the condition HostReachable, which is the controller's",
      },
    ],
    variables: [
      { name: "before", expression: "oldObject.metadata.?finalizers.orValue([])" },
      { name: "after", expression: "object.metadata.?finalizers.orValue([])" },
    ],
  },
  {
    name: "metalbridge-host-endpoint-slices",
    on: ["discovery.k8s.io", "v1", "endpointslices"],
    operations: WRITES,
    variables: [
      { name: "labels", expression: "oldObject.metadata.?labels.orValue({})" },
      {
        name: "allowed",
        expression: `oldObject.metadata.?annotations[?'${ANNOTATION_ADDRESSES}'].orValue('').split(',')`,
      },
      { name: "endpoints", expression: "object.?endpoints.orValue(null) == null ? [] : object.endpoints" },
      { name: "ports", expression: "object.?ports.orValue(null) == null ? [] : object.ports" },
      {
        name: "known",
        expression: "oldObject.?endpoints.orValue(null) == null ? [] : oldObject.endpoints",
      },
    ],
    validations: [
      {
        expression: "request.operation == 'UPDATE'",
        message: "a host may neither create nor delete EndpointSlices",
      },
      {
        expression:
          "request.operation != 'UPDATE' || " +
          `(variables.labels[?'${LABEL_HOST}'].orValue('') == variables.host && ` +
          `variables.labels[?'${LABEL_SLICE_MANAGED_BY}'].orValue('') == '${SLICE_MANAGED_BY}')`,
        message: "a host may write its own EndpointSlices only",
      },
      {
        expression: `request.operation != 'UPDATE' || (${celUnchanged("labels", "annotations", "ownerReferences", "finalizers")})`,
        message: "a host may change only endpoints and ports of an EndpointSlice",
      },
      {
        expression:
          "request.operation != 'UPDATE' || variables.endpoints.all(one, " +
          "!has(one.targetRef) && !has(one.nodeName) && !has(one.zone) && !has(one.hostname) && !has(one.hints))",
        message: "a host may set only addresses and conditions of its endpoints",
      },
      {
        expression:
          "request.operation != 'UPDATE' || (size(variables.endpoints) <= 1 && " +
          "variables.endpoints.all(one, size(one.addresses) <= 1) && size(variables.ports) <= 1 && " +
          `variables.ports.all(port, port.?name.orValue('') == '${PORT_NAME}' && !has(port.appProtocol)))`,
        message: "a host may publish one endpoint with one address and one port in an EndpointSlice",
      },
      {
        expression: `request.operation != 'UPDATE' || (${SMALL_FIELDS})`,
        message: "a host may not forge the managedFields of an EndpointSlice",
      },
      {
        // An address that an operator has removed may stay only while its endpoint is being withdrawn.
        expression:
          "request.operation != 'UPDATE' || variables.endpoints.all(one, one.addresses.all(address, " +
          "variables.allowed.exists(net, net != '' && (net.contains('/') ? cidr(net).containsIP(address) : ip(net) == ip(address)))) || " +
          "(one.?conditions.?ready.orValue(true) == false && one.?conditions.?serving.orValue(true) == false && " +
          "variables.known.exists(before, before.addresses == one.addresses)))",
        message: `an address is not among those of the annotation ${ANNOTATION_ADDRESSES}, a copy of spec.addresses of the Host`,
      },
    ],
  },
  {
    name: "metalbridge-host-leases",
    on: ["coordination.k8s.io", "v1", "leases"],
    operations: WRITES,
    validations: [
      {
        expression: `request.operation != 'DELETE' && request.namespace == '${NAMESPACE_HOSTS}' && object.metadata.name == variables.host`,
        message: "a host may create and renew its own Lease only",
      },
      {
        expression: `request.operation == 'DELETE' || (${celEmpty(...GUARDED_METADATA)} && ${SMALL_FIELDS})`,
        message:
          "a host's Lease has no labels, annotations, owner references, finalizers or forged managedFields",
      },
      {
        expression:
          "request.operation == 'DELETE' || (size(object.spec.?holderIdentity.orValue('')) <= 256 && " +
          "!has(object.spec.strategy) && !has(object.spec.preferredHolder))",
        message: "a host's Lease has a holder of at most 256 characters, and no strategy",
      },
    ],
  },
  {
    name: "metalbridge-host-events",
    on: ["events.k8s.io", "v1", "events"],
    operations: WRITES,
    validations: [
      {
        expression:
          "request.operation != 'DELETE' && " +
          `${isAlways("reportingInstance", "variables.host")} && ${isAlways("reportingController", `'${AGENT_REPORTER}'`)}`,
        message: "a host may report Events in its own name only",
      },
      {
        expression: `request.operation == 'DELETE' || (${celEmpty(...GUARDED_METADATA)} && ${SMALL_FIELDS})`,
        message:
          "a host's Event has no labels, annotations, owner references, finalizers or forged managedFields",
      },
      {
        expression:
          "request.operation == 'DELETE' || (!has(object.related) && object.?deprecatedCount.orValue(0) == 0 && " +
          "!has(object.deprecatedSource.component) && !has(object.deprecatedSource.host) && " +
          "!has(object.regarding.fieldPath) && !has(object.regarding.resourceVersion))",
        message: "a host's Event has no related object, field path or deprecated fields",
      },
      {
        expression:
          "request.operation == 'DELETE' || (object.?type.orValue('') in ['Normal', 'Warning'] && " +
          `${["reason", "action"].map((field) => `object.?${field}.orValue('').matches('^[A-Za-z0-9]{1,128}$')`).join(" && ")} && ` +
          "size(object.?note.orValue('')) <= 1024 && size(object.metadata.name) <= 253 && size(object.regarding.?uid.orValue('')) <= 64)",
        message:
          "a host's Event has type Normal or Warning, a reason and an action in CamelCase and a note of at most 1024 bytes",
      },
      {
        expression:
          `request.operation == 'DELETE' || (object.regarding.?apiVersion.orValue('') == '${API_VERSION}' && ` +
          "(object.regarding.?kind.orValue('') == 'Host' ? " +
          "object.regarding.?name.orValue('') == variables.host && request.namespace == 'default' : " +
          "(object.regarding.?kind.orValue('') == 'InferenceReplica' && object.regarding.?namespace.orValue('') == request.namespace)))",
        message: "a host may report Events about its own Host and about InferenceReplicas only",
      },
    ],
  },
  {
    name: "metalbridge-host-tokens",
    on: ["", "v1", "serviceaccounts/token"],
    operations: ["CREATE"],
    validations: [
      {
        expression: `request.namespace == '${NAMESPACE_HOSTS}' && request.name == variables.host`,
        message: "a host may renew its own token only",
      },
      {
        expression: `object.spec.expirationSeconds <= ${HOST_TOKEN_SECONDS}`,
        message: `a host's token may last ${HOST_TOKEN_SECONDS} seconds at most`,
      },
      {
        expression:
          "object.spec.?boundObjectRef.?kind.orValue('') == 'Secret' && " +
          `object.spec.?boundObjectRef.?name.orValue('').startsWith('${CREDENTIAL_SECRET_PREFIX}' + variables.host + '.')`,
        message:
          "a host's token must be bound to the Secret that `metalbridge host add` created for it: run `metalbridge host add` for this host, and join again",
      },
    ],
  },
];

/** Names of the policies, to check that they are installed. */
export const POLICY_NAMES: readonly string[] = policies.map(({ name }) => name);

/** All policies with their bindings. */
export function hostPolicies(): readonly AccessObject[] {
  return policies.flatMap((policy) =>
    policyObjects({
      ...policy,
      of: {
        name: "account-of-a-host",
        expression: `request.userInfo.username.startsWith('${ACCOUNT_PREFIX}')`,
      },
      variables: [
        { name: "host", expression: "request.userInfo.username.split(':')[3]" },
        ...(policy.variables ?? []),
      ],
    }),
  );
}
