/** What people with rights in one namespace, and those who run hosts, try beyond these rights. */
import { ANNOTATION_LOST } from "../../src/api/group.ts";
import { manifest, withFields } from "../fixtures/manifests.ts";
import {
  type Attempts,
  api,
  core,
  endpoints,
  get,
  hostPath,
  merge,
  NAMESPACE,
  named,
  OURS,
  post,
  rbac,
  remove,
  replicaPath,
  slicePath,
  VICTIM,
} from "./requests.ts";

const kinds = (plural: string, place = NAMESPACE) => `${OURS}/namespaces/${place}/${plural}`;
const ownService = `${kinds("inferenceservices")}/chat`;
const spec = (fields: object) => merge(ownService, { spec: fields });
const newService = (fields: Readonly<Record<string, unknown>>) =>
  post(kinds("inferenceservices"), withFields(manifest("InferenceService", "new", NAMESPACE), fields));
const newModel = (fields: Readonly<Record<string, unknown>>) =>
  post(kinds("models"), withFields(manifest("Model", "new", NAMESPACE), fields));
const host = (fields: object) => merge(hostPath(VICTIM), fields);
const secret = { secretRef: { name: "keys" } };

/** With one of these a service runs what its author likes, with whatever its namespace holds. */
const POD_FIELDS: Readonly<Record<string, object>> = {
  "an image": { image: "evil.example.com/root:1" },
  "a command": { runtime: "generic", command: ["/bin/sh"], args: ["-c", "id"] },
  arguments: { args: ["--anything"] },
  "an environment from a Secret": {
    env: [{ name: "A", valueFrom: { secretKeyRef: { name: "keys", key: "a" } } }],
  },
  "an environment": { env: [{ name: "LD_PRELOAD", value: "/tmp/evil.so" }] },
  "a Secret as a volume": { extraVolumes: [{ name: "a", secret: { secretName: "keys" } }] },
  "a projected token": {
    extraVolumes: [{ name: "a", projected: { sources: [{ serviceAccountToken: { path: "t" } }] } }],
  },
  "a mount": { extraVolumeMounts: [{ name: "a", mountPath: "/a" }] },
  "a user of the pod": { podSecurityContext: { runAsUser: 0 } },
  "a user of the container": { securityContext: { runAsUser: 0 } },
  "a priority class": { priorityClassName: "metalbridge-critical" },
  "a pull Secret": { imagePullSecrets: [{ name: "keys" }] },
  "annotations of the pods": { podAnnotations: { "sidecar.example.com/inject": "true" } },
  "labels of the pods": { podLabels: { app: "database" } },
  "a program as a probe": { probeOverrides: { liveness: { exec: { command: ["/bin/sh"] } } } },
  "a claim of the namespace": { modelCache: { claimName: "database" } },
  "code from the model": { sglangConfig: { trustRemoteCode: true } },
  "arguments of an engine without a list": { runtime: "vllm", extraArgs: ["--trust-remote-code"] },
};

const SECRETS: Readonly<Record<string, object>> = {
  "the key of clients": { auth: secret },
  "a certificate": { endpoint: { tls: secret } },
  "a CA of clients": {
    endpoint: { tls: { secretRef: { name: "own" }, clientCASecretRef: { name: "keys" } } },
  },
  "a token for vLLM": { vllmConfig: { hfTokenSecretRef: { name: "keys", key: "a" } } },
  "a token for TGI": { tgiConfig: { hfTokenSecretRef: { name: "keys", key: "a" } } },
  "a token for SGLang": { sglangConfig: { hfTokenSecretRef: { name: "keys", key: "a" } } },
  "a token for PersonaPlex": { personaPlexConfig: { hfTokenSecretRef: { name: "keys", key: "a" } } },
};

const DANGEROUS: Readonly<Record<string, object>> = {
  "a privileged container": { securityContext: { privileged: true } },
  "more capabilities": { securityContext: { capabilities: { add: ["SYS_ADMIN"] } } },
  "all capabilities": { securityContext: { capabilities: { add: ["ALL"] } } },
  "an unmasked /proc": { securityContext: { procMount: "Unmasked" } },
  "no seccomp": { securityContext: { seccompProfile: { type: "Unconfined" } } },
  "no seccomp for the pod": { podSecurityContext: { seccompProfile: { type: "Unconfined" } } },
  "no AppArmor": { securityContext: { appArmorProfile: { type: "Unconfined" } } },
  "SELinux options": { podSecurityContext: { seLinuxOptions: { type: "spc_t" } } },
  "a process of a Windows host": { securityContext: { windowsOptions: { hostProcess: true } } },
  sysctls: { podSecurityContext: { sysctls: [{ name: "kernel.shm_rmid_forced", value: "0" }] } },
  "a folder of the node": { extraVolumes: [{ name: "a", hostPath: { path: "/" } }] },
  "a mount of the weights' folder of the node": { extraVolumeMounts: [{ name: "node-0", mountPath: "/w" }] },
  "the priority of the system": { priorityClassName: "system-node-critical" },
};

const ROUTES: Readonly<Record<string, object>> = {
  "a Gateway of another namespace": {
    endpoint: { gateway: { enabled: true, gatewayRef: { name: "ai", namespace: "infra" } } },
  },
  "a Gateway of its own": { endpoint: { gateway: { gatewayRef: { name: "ai" } } } },
};

const settings = (of: Readonly<Record<string, object>>) =>
  Object.entries(of).map(([what, fields]) => [what, spec(fields)] as const);

const clusterWide: Attempts["denied"] = [
  ["read of Hosts", get(`${OURS}/hosts`)],
  ["cordon of a Host", host({ spec: { unschedulable: true } })],
  ["a new replica", post(kinds("inferencereplicas"), manifest("InferenceReplica", "evil", NAMESPACE))],
  ["the status of a replica", merge(`${replicaPath("mine")}/status`, { status: { phase: "Ready" } })],
  ["the spec of a replica", merge(replicaPath("mine"), { spec: { priority: "critical" } })],
  ["the status of a service", merge(`${ownService}/status`, { status: { phase: "Ready" } })],
  ["an EndpointSlice", merge(slicePath("mine"), endpoints("10.0.0.1"))],
  ["a Secret of another namespace", get(core("secrets", "kube-system"))],
  ["a Model of another namespace", post(kinds("models", "default"), manifest("Model", "new", "default"))],
  [
    "a service of another namespace",
    post(kinds("inferenceservices", "default"), manifest("InferenceService", "new", "default")),
  ],
  [
    "a ClusterRole",
    post(rbac("clusterroles"), named("rbac.authorization.k8s.io/v1", "ClusterRole", { rules: [] })),
  ],
  [
    "the policies away",
    remove("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/metalbridge-pod-settings"),
  ],
];

export const users = {
  "a tenant with edit": {
    denied: [...settings(ROUTES), ...settings(DANGEROUS), ...clusterWide],
    // Whoever may create pods and read Secrets could do the same without Metalbridge.
    allowed: [...settings(POD_FIELDS), ...settings(SECRETS)],
  },
  "a tenant with our kinds only": {
    denied: [
      ...settings(POD_FIELDS),
      ...settings(SECRETS),
      ...settings(ROUTES),
      ...settings(DANGEROUS),
      ...clusterWide,
      ["a service with an image", newService({ "spec.image": "evil.example.com/root:1" })],
      [
        "a service with a folder of the node",
        newService({ "spec.extraVolumes": [{ name: "a", hostPath: { path: "/" } }] }),
      ],
      ["a Model with a Secret", newModel({ "spec.sourceSecretRef": { name: "keys" } })],
      [
        "a Secret for a Model",
        merge(`${kinds("models")}/tiny`, { spec: { sourceSecretRef: { name: "keys" } } }),
      ],
      [
        "another source for a Model with a Secret",
        merge(`${kinds("models")}/gated`, { spec: { source: "https://evil.example.com/a.gguf" } }),
      ],
      ["read of a Secret", get(core("secrets/keys"))],
      [
        "a Pod",
        post(core("pods"), named("v1", "Pod", { spec: { containers: [{ name: "a", image: "a" }] } })),
      ],
      ["the log of a pod", get(core("pods/a/log"))],
      ["a Deployment", get(`${api("apps")}/namespaces/${NAMESPACE}/deployments`)],
      ["a Service", post(core("services"), named("v1", "Service", { spec: { ports: [{ port: 80 }] } }))],
    ],
    allowed: [
      ["a service", newService({})],
      ["a route on the Gateway of the controller", spec({ endpoint: { gateway: { enabled: true } } })],
      ["another size", spec({ replicas: 2 })],
      ["settings of the engine", spec({ contextSize: 4096, extraArgs: ["--threads", "4"] })],
      ["limits of a probe", spec({ probeOverrides: { liveness: { timeoutSeconds: 5 } } })],
      ["a Model", newModel({})],
      ["a Model with a Secret that it may read", newModel({ "spec.sourceSecretRef": { name: "own" } })],
      [
        "a label of a Model with a Secret",
        merge(`${kinds("models")}/gated`, { metadata: { labels: { a: "b" } } }),
      ],
      ["the end of a service", remove(ownService)],
    ],
  },
  "an operator": {
    denied: [
      ...settings(POD_FIELDS),
      ...settings(SECRETS),
      ...settings(ROUTES),
      ...settings(DANGEROUS),
      ...clusterWide.filter(([what]) => what !== "cordon of a Host" && what !== "read of Hosts"),
      ["another Model", spec({ modelRef: "other" })],
      ["another runtime", spec({ runtime: "ollama" })],
      ["a port of every node", spec({ endpoint: { type: "NodePort" } })],
      ["another priority", spec({ priority: "critical" })],
      ["other hosts", spec({ placement: { hosts: [VICTIM] } })],
      ["an autoscaler", spec({ autoscaling: { minReplicas: 1, maxReplicas: 50 } })],
      ["a label of a service", merge(ownService, { metadata: { labels: { a: "b" } } })],
      ["a finalizer of a service", merge(ownService, { metadata: { finalizers: ["example.com/x"] } })],
      ["a new service", newService({})],
      ["the end of a service", remove(ownService)],
      ["a Model", merge(`${kinds("models")}/tiny`, { spec: { source: "file:///etc/passwd" } })],
      ["addresses of a Host", host({ spec: { addresses: ["0.0.0.0/0"] } })],
      ["memory of a Host", host({ spec: { memory: { gpuBudget: "1Gi" } } })],
      ["stored models of a Host", host({ spec: { models: { pinned: ["hf://a/b"] } } })],
      ["a label of a Host", host({ metadata: { labels: { zone: "a" } } })],
      ["another annotation of a Host", host({ metadata: { annotations: { a: "b" } } })],
      ["a finalizer of a Host", host({ metadata: { finalizers: ["example.com/x"] } })],
      ["the status of a Host", merge(`${hostPath(VICTIM)}/status`, { status: { addresses: [] } })],
      ["the end of a Host", remove(hostPath(VICTIM))],
      [
        "a Pod",
        post(core("pods"), named("v1", "Pod", { spec: { containers: [{ name: "a", image: "a" }] } })),
      ],
    ],
    allowed: [
      ["a rollout", spec({ rollout: { maxSurge: 2 } })],
      ["another size", spec({ replicas: 3 })],
      ["a pause", spec({ suspend: true })],
      ["going back to other settings", spec({ contextSize: 2048, extraArgs: ["--threads", "2"] })],
      ["a scale", merge(`${ownService}/scale`, { spec: { replicas: 2 } })],
      ["cordon", host({ spec: { unschedulable: true } })],
      ["drain", host({ spec: { drain: true } })],
      ["lost", host({ metadata: { annotations: { [ANNOTATION_LOST]: "2026-01-01T00:00:00Z" } } })],
      ["restart of an engine", remove(replicaPath("theirs"))],
    ],
  },
} satisfies Readonly<Record<string, Attempts>>;
