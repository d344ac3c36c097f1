/** What a compromised host tries on the kinds that it writes to: Hosts, replicas, EndpointSlices. */
import {
  ANNOTATION_ADDRESSES,
  FINALIZER_ENGINE,
  LABEL_HOST,
  LABEL_SERVICE_NAME,
} from "../../src/api/group.ts";
import { manifest, withFields } from "../fixtures/manifests.ts";
import {
  type Attacks,
  apply,
  core,
  EVIL,
  endpoints,
  FOREIGN_FINALIZER,
  hostPath,
  JSON_PATCH,
  merge,
  NAMESPACE,
  named,
  OURS,
  OWN_ADDRESS,
  patch,
  post,
  remove,
  replicaPath,
  slice,
  slicePath,
  slicesPath,
  TAKEN_BACK,
  VICTIM,
} from "./requests.ts";

export const attacksOnOwnKinds: Attacks = {
  "other hosts": [
    ["status by merge patch", merge(`${hostPath(VICTIM)}/status`, { status: { addresses: ["1.2.3.4"] } })],
    [
      "status by apply",
      apply(`${hostPath(VICTIM)}/status`, {
        apiVersion: "metalbridge.dev/v1alpha1",
        kind: "Host",
        metadata: { name: VICTIM },
        status: { addresses: ["1.2.3.4"] },
      }),
    ],
    [
      "status by JSON patch",
      patch(`${hostPath(VICTIM)}/status`, JSON_PATCH, [{ op: "add", path: "/status", value: {} }]),
    ],
    ["spec", merge(hostPath(VICTIM), { spec: { drain: true } })],
    ["lost mark", merge(hostPath(VICTIM), { metadata: { annotations: { "metalbridge.dev/lost": "now" } } })],
    ["deletion", remove(hostPath(VICTIM))],
    ["deletion of all", remove(`${OURS}/hosts`)],
    ["creation of another Host", post(`${OURS}/hosts`, manifest("Host", "evil"))],
  ],
  "its own Host": [
    ["its addresses", merge(hostPath(EVIL), { spec: { addresses: ["0.0.0.0/0"] } })],
    ["its labels", merge(hostPath(EVIL), { metadata: { labels: { zone: "a" } } })],
    ["its owner references", merge(hostPath(EVIL), { metadata: { ownerReferences: [] } })],
    ["its finalizers", merge(hostPath(EVIL), { metadata: { finalizers: ["example.com/x"] } })],
    ["its deletion", remove(hostPath(EVIL))],
    [
      "what it is to prefetch, with a Secret of its choice",
      merge(`${hostPath(EVIL)}/status`, {
        status: {
          prefetch: {
            wanted: [
              {
                namespace: NAMESPACE,
                name: "m",
                model: { source: "hf://org/m", format: "gguf", secretRef: { name: "keys" } },
              },
            ],
          },
        },
      }),
    ],
    [
      "what it is to measure, with a Secret of its choice",
      merge(`${hostPath(EVIL)}/status`, {
        status: {
          benchmark: {
            order: {
              key: "k-cpu",
              namespace: NAMESPACE,
              name: "m",
              model: { source: "hf://org/m", format: "gguf", secretRef: { name: "keys" } },
              runtime: "llamacpp",
              deviceClass: "cpu",
              settings: {},
              plan: { warmups: 2, runs: 5, tokens: 128 },
            },
          },
        },
      }),
    ],
    [
      "its creation",
      post(`${OURS}/hosts`, withFields(manifest("Host", EVIL), { "spec.addresses": ["0.0.0.0/0"] })),
    ],
  ],
  "replicas of other hosts": [
    ["status by merge patch", merge(`${replicaPath("theirs")}/status`, { status: { phase: "Failed" } })],
    [
      "status by apply",
      apply(`${replicaPath("theirs")}/status`, {
        apiVersion: "metalbridge.dev/v1alpha1",
        kind: "InferenceReplica",
        metadata: { name: "theirs", namespace: NAMESPACE },
        status: { phase: "Ready" },
      }),
    ],
    [
      "removal of the finalizer",
      patch(replicaPath("theirs"), JSON_PATCH, [{ op: "remove", path: "/metadata/finalizers/1" }]),
    ],
    ["spec", merge(replicaPath("theirs"), { spec: { drain: { reason: "x" } } })],
    ["labels", merge(replicaPath("theirs"), { metadata: { labels: { a: "b" } } })],
    ["owner references", merge(replicaPath("theirs"), { metadata: { ownerReferences: [] } })],
    ["deletion", remove(replicaPath("theirs"))],
  ],
  "its own replicas": [
    ["mutable spec", merge(replicaPath("mine"), { spec: { memory: { claimBytes: 1 } } })],
    ["priority", merge(replicaPath("mine"), { spec: { priority: "critical" } })],
    ["a host of its choice", merge(replicaPath("mine"), { spec: { template: { hostName: VICTIM } } })],
    [
      "a Secret of its choice",
      merge(replicaPath("mine"), { spec: { template: { auth: { secretName: "keys", key: "a" } } } }),
    ],
    ["added label", merge(replicaPath("mine"), { metadata: { labels: { a: "b" } } })],
    ["removed label", merge(replicaPath("mine"), { metadata: { labels: { [LABEL_HOST]: null } } })],
    ["annotations", merge(replicaPath("mine"), { metadata: { annotations: { a: null } } })],
    [
      "owner references",
      merge(replicaPath("mine"), {
        metadata: { ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "p", uid: "u" }] },
      }),
    ],
    [
      "added finalizer",
      merge(replicaPath("mine"), {
        metadata: { finalizers: [FOREIGN_FINALIZER, FINALIZER_ENGINE, "example.com/x"] },
      }),
    ],
    [
      "its finalizer before the deletion",
      merge(replicaPath("mine"), { metadata: { finalizers: [FOREIGN_FINALIZER] } }),
    ],
    [
      "the finalizer of another",
      merge(replicaPath("mine-deleted"), { metadata: { finalizers: [FINALIZER_ENGINE] } }),
    ],
    ["all finalizers", merge(replicaPath("mine-deleted"), { metadata: { finalizers: null } })],
    ["deletion", remove(replicaPath("mine"))],
    ["deletion of all", remove(`${OURS}/namespaces/${NAMESPACE}/inferencereplicas`)],
    [
      "creation",
      post(
        `${OURS}/namespaces/${NAMESPACE}/inferencereplicas`,
        withFields(manifest("InferenceReplica", "evil", NAMESPACE), {
          "spec.template.hostName": EVIL,
        }),
      ),
    ],
    [
      "creation by apply",
      apply(
        replicaPath("evil"),
        withFields(manifest("InferenceReplica", "evil", NAMESPACE), {
          "spec.template.hostName": EVIL,
        }),
      ),
    ],
  ],
  "EndpointSlices of others": [
    ["addresses of another host's slice", merge(slicePath("theirs"), endpoints(OWN_ADDRESS))],
    ["withdrawal of another host's slice", merge(slicePath("theirs"), { endpoints: [] })],
    ["a slice that Kubernetes manages", merge(slicePath("of-kubernetes"), endpoints(OWN_ADDRESS))],
    [
      "its label on another's slice",
      merge(slicePath("theirs"), { metadata: { labels: { [LABEL_HOST]: EVIL } } }),
    ],
    ["creation", post(slicesPath(), slice("evil", EVIL, OWN_ADDRESS))],
    ["creation by apply", apply(slicePath("evil"), slice("evil", EVIL, OWN_ADDRESS))],
    ["deletion", remove(slicePath("theirs"))],
    ["Endpoints of old", post(core("endpoints"), named("v1", "Endpoints"))],
  ],
  "its own EndpointSlices": [
    ["an address that is not its own", merge(slicePath("mine"), endpoints("192.168.77.6"))],
    [
      "an address beside its own",
      merge(slicePath("mine"), { endpoints: [{ addresses: [OWN_ADDRESS, "10.0.0.1"] }] }),
    ],
    [
      "a second endpoint elsewhere",
      merge(slicePath("mine"), { endpoints: [{ addresses: [OWN_ADDRESS] }, { addresses: ["10.0.0.1"] }] }),
    ],
    [
      "an address elsewhere, not ready",
      merge(slicePath("mine"), endpoints("10.0.0.1", { conditions: { ready: false, serving: false } })),
    ],
    ["an address outside the network", merge(slicePath("mine"), endpoints("192.168.80.1"))],
    ["an address that was taken back", merge(slicePath("mine-taken-back"), endpoints(TAKEN_BACK))],
    [
      "the same, serving still",
      merge(
        slicePath("mine-taken-back"),
        endpoints(TAKEN_BACK, { conditions: { ready: false, serving: true } }),
      ),
    ],
    [
      "the same, nothing said",
      merge(slicePath("mine-taken-back"), {
        endpoints: [{ addresses: [TAKEN_BACK], conditions: { ready: false } }],
      }),
    ],
    ["an address where none is allowed", merge(slicePath("without-addresses"), endpoints(OWN_ADDRESS))],
    [
      "an address and the permission for it",
      merge(slicePath("mine"), {
        metadata: { annotations: { [ANNOTATION_ADDRESSES]: "10.0.0.1" } },
        ...endpoints("10.0.0.1"),
      }),
    ],
    [
      "the service's name",
      merge(slicePath("mine"), { metadata: { labels: { [LABEL_SERVICE_NAME]: "kubernetes" } } }),
    ],
    ["removed label", merge(slicePath("mine"), { metadata: { labels: { [LABEL_HOST]: null } } })],
    ["removed annotations", merge(slicePath("mine"), { metadata: { annotations: null } })],
    [
      "owner references",
      merge(slicePath("mine"), {
        metadata: { ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "p", uid: "u" }] },
      }),
    ],
    ["finalizers", merge(slicePath("mine"), { metadata: { finalizers: ["example.com/x"] } })],
    [
      "a Pod behind its address",
      merge(
        slicePath("mine"),
        endpoints(OWN_ADDRESS, { targetRef: { kind: "Pod", name: "p", namespace: "kube-system" } }),
      ),
    ],
    ["a node of its choice", merge(slicePath("mine"), endpoints(OWN_ADDRESS, { nodeName: "node-1" }))],
    ["deletion", remove(slicePath("mine"))],
  ],
};
