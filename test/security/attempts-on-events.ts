/** What a compromised host tries with Events, its Lease and the size of what it writes. */
import { HOST_TOKEN_SECONDS } from "../../src/api/access/account.ts";
import { FINALIZER_ENGINE } from "../../src/api/group.ts";
import {
  type Attacks,
  aboutReplica,
  core,
  EVIL,
  endpoints,
  eventOf,
  eventsPath,
  hostPath,
  lease,
  leasesPath,
  merge,
  NAMESPACE,
  OWN_ADDRESS,
  post,
  put,
  type Request,
  replicaPath,
  slicePath,
  token,
  VICTIM,
} from "./requests.ts";

const event = (fields: object, metadata: object = {}): Request =>
  post(eventsPath(), eventOf(EVIL, fields, metadata));
const regarding = (fields: object): Request => event({ regarding: { ...aboutReplica("mine"), ...fields } });
/** Where Events about cluster-scoped objects live. */
const about = (fields: object): Request =>
  post(
    eventsPath("default"),
    eventOf(
      EVIL,
      { regarding: { apiVersion: "metalbridge.dev/v1alpha1", ...fields } },
      { namespace: "default" },
    ),
  );
const leaseWith = (metadata: object, spec: object = {}): Request => {
  const own = lease(EVIL) as { metadata: object; spec: object };
  const body = { ...own, metadata: { ...own.metadata, ...metadata }, spec: { ...own.spec, ...spec } };
  return put(`${leasesPath()}/${EVIL}`, body);
};
const long = (length: number) => "x".repeat(length);
const many = (prefix: string) =>
  Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`${prefix}${at}`, {}]));
const forged = (apiVersion: string) => [
  {
    manager: "zz",
    operation: "Update",
    apiVersion,
    time: "2026-01-01T00:00:00Z",
    fieldsType: "FieldsV1",
    fieldsV1: { "f:metadata": { "f:labels": many("f:x") } },
  },
];
const model = (at: number) => ({ source: `https://example.com/${at}/${long(200)}` });

export const attacksOnEvents: Attacks = {
  Events: [
    ["as the controller", event({ reportingController: "metalbridge.dev/controller" })],
    ["as a kubelet", event({ reportingController: "kubelet" })],
    ["in another host's name", post(eventsPath(), eventOf(VICTIM))],
    ["about another Host", about({ kind: "Host", name: VICTIM })],
    ["about its Host, elsewhere", regarding({ kind: "Host", name: EVIL })],
    ["about a Pod", regarding({ apiVersion: "v1", kind: "Pod", name: "p" })],
    ["about a Node", about({ apiVersion: "v1", kind: "Node", name: "n" })],
    ["about a service", regarding({ kind: "InferenceService", name: "chat" })],
    ["about a Secret", regarding({ apiVersion: "v1", kind: "Secret", name: "keys" })],
    ["in kube-system", post(eventsPath("kube-system"), eventOf(EVIL, {}, { namespace: "kube-system" }))],
    ["with a finalizer", event({}, { finalizers: ["example.com/x"] })],
    ["with our finalizer", event({}, { finalizers: [FINALIZER_ENGINE] })],
    ["with labels", event({}, { labels: { a: "b" } })],
    ["with annotations", event({}, { annotations: { a: long(100_000) } })],
    [
      "with an owner",
      event({}, { ownerReferences: [{ apiVersion: "v1", kind: "Namespace", name: NAMESPACE, uid: "u" }] }),
    ],
    ["with a related object", event({ related: aboutReplica("mine") })],
    ["with a field path", regarding({ fieldPath: long(1_000) })],
    ["with a long uid", regarding({ uid: long(1_000) })],
    ["with a resourceVersion", regarding({ resourceVersion: long(1_000) })],
    ["of another type", event({ type: "Critical" })],
    ["with a long reason", event({ reason: long(129) })],
    ["with a reason that moves the cursor", event({ reason: "\u001b[2J" })],
    ["with an action in words", event({ action: "a b" })],
    ["with a long note", event({ note: long(1_025) })],
    ["with an old source", event({ deprecatedSource: { component: "kubelet", host: "n" } })],
    ["with forged managedFields", event({}, { managedFields: forged("events.k8s.io/v1") })],
  ],
  "its own Lease": [
    ["a finalizer", leaseWith({ finalizers: ["example.com/x"] })],
    ["labels", leaseWith({ labels: { a: "b" } })],
    ["annotations of 250 KB", leaseWith({ annotations: { a: long(250_000) } })],
    ["an owner", leaseWith({ ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "p", uid: "u" }] })],
    ["a long holder", leaseWith({}, { holderIdentity: long(257) })],
    ["forged managedFields", leaseWith({ managedFields: forged("coordination.k8s.io/v1") })],
  ],
  "sizes and fields that are not its own": [
    ["its condition Reachable", condition(`${hostPath(EVIL)}/status`, "Reachable")],
    ["its condition Flapping", condition(`${hostPath(EVIL)}/status`, "Flapping")],
    ["its condition Lost", condition(`${hostPath(EVIL)}/status`, "Lost")],
    [
      "what it is asked to fetch",
      status({
        prefetch: {
          wanted: [{ namespace: NAMESPACE, name: "a", model: { source: "hf://a/b", format: "gguf" } }],
        },
      }),
    ],
    ["its flapping", status({ reachableChanges: ["2026-01-01T00:00:00Z"] })],
    ["HostReachable of its replica", condition(`${replicaPath("mine")}/status`, "HostReachable")],
    ["257 models", status({ models: Array.from({ length: 257 }, (_, at) => model(at)) })],
    ["256 long sources", status({ models: Array.from({ length: 256 }, (_, at) => model(at)) })],
    ["a name as its address", status({ addresses: ["metadata.google.internal"] })],
    ["loopback as its address", status({ addresses: ["127.0.0.1"] })],
    ["the metadata address", status({ addresses: ["169.254.169.254"] })],
    ["control characters in its version", status({ info: { osVersion: "\u001b[31m15" } })],
    ["a changed direction in its version", status({ info: { chip: "M4\u202eorP" } })],
    ["a long message", merge(`${replicaPath("mine")}/status`, { status: { message: long(2_049) } })],
    [
      "a long log",
      merge(`${replicaPath("mine")}/status`, { status: { lastExit: { logTail: long(4_097) } } }),
    ],
    [
      "two endpoints",
      merge(slicePath("mine"), {
        endpoints: [{ addresses: [OWN_ADDRESS] }, { addresses: ["192.168.78.1"] }],
      }),
    ],
    [
      "two addresses",
      merge(slicePath("mine"), { endpoints: [{ addresses: [OWN_ADDRESS, "192.168.78.1"] }] }),
    ],
    [
      "two ports",
      merge(slicePath("mine"), {
        ...endpoints(OWN_ADDRESS),
        ports: [
          { name: "http", port: 1 },
          { name: "other", port: 2 },
        ],
      }),
    ],
    [
      "a port of another name",
      merge(slicePath("mine"), { ...endpoints(OWN_ADDRESS), ports: [{ name: "https", port: 1 }] }),
    ],
    [
      "forged managedFields of its slice",
      merge(slicePath("mine"), {
        metadata: { managedFields: forged("discovery.k8s.io/v1") },
        ...endpoints(OWN_ADDRESS),
      }),
    ],
    [
      "an unchanged replica again",
      merge(replicaPath("mine"), { metadata: { finalizers: ["example.com/kept", FINALIZER_ENGINE] } }),
    ],
    ["an Event of the core group, about itself", post(core("events"), { kind: "Event" })],
  ],
};

/** API servers without coordinated leader election drop the strategy before any policy sees it. */
export const leaseWithStrategy = leaseWith({}, { strategy: "OldestEmulationVersion", preferredHolder: "x" });

/** What it may write up to a limit, and not beyond. */
export const limits: readonly (readonly [what: string, limit: number, of: (size: number) => Request])[] = [
  ["characters of an Event's note", 1_024, (size) => event({ note: long(size) })],
  ["characters of an Event's reason", 128, (size) => event({ reason: long(size) })],
  ["characters of an Event's action", 128, (size) => event({ action: long(size) })],
  ["characters of its Lease's holder", 256, (size) => leaseWith({}, { holderIdentity: long(size) })],
  ["seconds of its own token", HOST_TOKEN_SECONDS, (size) => token(EVIL, size)],
  [
    "models in the status of its Host",
    256,
    (size) => status({ models: Array.from({ length: size }, (_, at) => ({ source: `hf://a/${at}` })) }),
  ],
];

function status(fields: object): Request {
  return merge(`${hostPath(EVIL)}/status`, { status: fields });
}

function condition(path: string, type: string): Request {
  const lastTransitionTime = "2026-01-01T00:00:00Z";
  return merge(path, {
    status: { conditions: [{ type, status: "True", reason: "Fine", message: "fine", lastTransitionTime }] },
  });
}
