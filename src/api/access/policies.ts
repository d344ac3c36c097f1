/** Admission policies that hold each host's account to its own objects, as NodeRestriction does for kubelets. */
import {
  ANNOTATION_ADDRESSES,
  FINALIZER_ENGINE,
  GROUP,
  LABEL_HOST,
  LABEL_SLICE_MANAGED_BY,
  NAMESPACE_HOSTS,
  SLICE_MANAGED_BY,
  VERSION,
} from "../group.ts";
import { ACCOUNT_PREFIX, CREDENTIAL_SECRET_PREFIX, HOST_TOKEN_SECONDS } from "./account.ts";

export interface AccessObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string } & Record<string, unknown>;
}

interface Validation {
  readonly expression: string;
  readonly message: string;
}

interface Policy {
  readonly name: string;
  readonly on: readonly [group: string, version: string, ...resources: string[]];
  readonly operations: readonly ("CREATE" | "UPDATE" | "DELETE")[];
  readonly variables?: readonly { readonly name: string; readonly expression: string }[];
  readonly validations: readonly Validation[];
}

const ADMISSION = "admissionregistration.k8s.io/v1";
const WRITES = ["CREATE", "UPDATE", "DELETE"] as const;
const prefetchOrders = (of: string) => `${of}.?status.?prefetch.?wanted.orValue([])`;
const IS_STATUS = "request.?subResource.orValue('') == 'status'";

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
        // RBAC decides whether it may create it: `metalbridge agent --register`.
        expression: `request.operation == 'CREATE' || (request.operation == 'UPDATE' && ${IS_STATUS})`,
        message: "a host may write the status of its Host only",
      },
      {
        // They decide which Secrets it may read, and what other hosts give it.
        expression: `request.operation != 'UPDATE' || ${prefetchOrders("object")} == ${prefetchOrders("oldObject")}`,
        message: "status.prefetch.wanted is the controller's: a host may not change it",
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
        expression: `request.operation != 'UPDATE' || (${unchanged("labels", "annotations", "ownerReferences")})`,
        message: "a host may not change labels, annotations or owner references of an InferenceReplica",
      },
      {
        expression:
          "request.operation != 'UPDATE' || variables.after == variables.before || " +
          `(has(oldObject.metadata.deletionTimestamp) && variables.after == variables.before.filter(name, name != '${FINALIZER_ENGINE}'))`,
        message: `of the finalizers of a deleted InferenceReplica a host may remove ${FINALIZER_ENGINE} only`,
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
        expression: `request.operation != 'UPDATE' || (${unchanged("labels", "annotations", "ownerReferences", "finalizers")})`,
        message: "of an EndpointSlice a host may change endpoints and ports only",
      },
      {
        expression:
          "request.operation != 'UPDATE' || variables.endpoints.all(one, " +
          "!has(one.targetRef) && !has(one.nodeName) && !has(one.zone) && !has(one.hostname) && !has(one.hints))",
        message: "a host may give its endpoints addresses and conditions only",
      },
      {
        // What an operator has taken back may stay only to be withdrawn.
        expression:
          "request.operation != 'UPDATE' || variables.endpoints.all(one, one.addresses.all(address, " +
          "variables.allowed.exists(net, net != '' && (net.contains('/') ? cidr(net).containsIP(address) : ip(net) == ip(address)))) || " +
          "(one.?conditions.?ready.orValue(true) == false && one.?conditions.?serving.orValue(true) == false && " +
          "variables.known.exists(before, before.addresses == one.addresses)))",
        message: `an address is not among those of the annotation ${ANNOTATION_ADDRESSES}, which holds spec.addresses of the Host`,
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
    ],
  },
  {
    name: "metalbridge-host-events",
    on: ["events.k8s.io", "v1", "events"],
    operations: WRITES,
    validations: [
      {
        expression:
          "request.operation != 'DELETE' && object.?reportingInstance.orValue('') == variables.host && " +
          "(request.operation == 'CREATE' || oldObject.?reportingInstance.orValue('') == variables.host)",
        message: "a host may report Events in its own name only",
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
          "a host's token has to be bound to the Secret that `metalbridge host add` made for it: run `metalbridge host add` for this host, and join again",
      },
    ],
  },
];

/** Names of the policies, for whoever has to know that they are installed. */
export const POLICY_NAMES: readonly string[] = policies.map(({ name }) => name);

/** Each policy with its binding. */
export function hostPolicies(): readonly AccessObject[] {
  return policies.flatMap(({ name, on: [group, version, ...resources], operations, ...policy }) => [
    {
      apiVersion: ADMISSION,
      kind: "ValidatingAdmissionPolicy",
      metadata: { name },
      spec: {
        failurePolicy: "Fail",
        // With the API server's defaults: managers who apply the same share the field, which has one owner as a whole.
        matchConstraints: {
          matchPolicy: "Equivalent",
          namespaceSelector: {},
          objectSelector: {},
          resourceRules: [
            {
              apiGroups: [group],
              apiVersions: [version],
              operations: [...operations],
              resources,
              scope: "*",
            },
          ],
        },
        matchConditions: [
          {
            name: "account-of-a-host",
            expression: `request.userInfo.username.startsWith('${ACCOUNT_PREFIX}')`,
          },
        ],
        variables: [
          { name: "host", expression: "request.userInfo.username.split(':')[3]" },
          ...(policy.variables ?? []),
        ],
        validations: policy.validations.map((validation) => ({ ...validation, reason: "Forbidden" })),
      },
    },
    {
      apiVersion: ADMISSION,
      kind: "ValidatingAdmissionPolicyBinding",
      metadata: { name },
      spec: { policyName: name, validationActions: ["Deny"] },
    },
  ]);
}

function unchanged(...fields: readonly string[]): string {
  const of = (object: string, field: string) => `${object}.metadata.?${field}.orValue(null)`;
  return fields.map((field) => `${of("object", field)} == ${of("oldObject", field)}`).join(" && ");
}
