/** What kwok does with nodes and pods: its Stage objects, as the text of its configuration file. */

/**
 * How a pod continues once it is bound to a node. `ready` by default, `complete` for a Job's pods; both become ready first, as
 * `fail` and `evicted` do. An outcome that is set later changes a pod that runs.
 */
export type Outcome =
  | "ready"
  | "complete"
  | "fail"
  | "crash"
  | "never-ready"
  | "image-pull"
  | "evicted"
  | "init-crash";

const PREFIX = "bed.metalbridge.dev";
/** Annotations of a pod. */
const OUTCOME = `${PREFIX}/outcome`;
const EXIT_CODE = `${PREFIX}/exit-code`;
const MESSAGE = `${PREFIX}/message`;
const AFTER = `${PREFIX}/after`;
const POD_IP = `${PREFIX}/pod-ip`;
/** A condition that remembers which outcome a pod has reached. */
const REACHED = `${PREFIX}/reached`;

export interface PodScript {
  readonly outcome?: Outcome;
  /** Of a container that failed or crashed; 1 unless given. 137: killed for memory. */
  readonly exitCode?: number;
  /** What every container that exits leaves as its termination message. */
  readonly message?: string;
  /** Before each step: "1.5s"; at once unless given, but for the end of a pod: 200ms, and an eviction: 1s. */
  readonly after?: string;
  /** Where something real answers in its place. */
  readonly podIP?: string;
}

/** For `metadata.annotations` of a pod or of a pod template. */
export function scriptAnnotations(script: PodScript): Readonly<Record<string, string>> {
  return {
    ...(script.outcome === undefined ? {} : { [OUTCOME]: script.outcome }),
    ...(script.exitCode === undefined ? {} : { [EXIT_CODE]: String(script.exitCode) }),
    ...(script.message === undefined ? {} : { [MESSAGE]: script.message }),
    ...(script.after === undefined ? {} : { [AFTER]: script.after }),
    ...(script.podIP === undefined ? {} : { [POD_IP]: script.podIP }),
  };
}

/** Default, bound at once to a volume that every node reaches. */
const SHARED_CLASS = "kwok-shared";
/** Bound when the first pod is scheduled, to a volume that only its node reaches. */
const LOCAL_CLASS = "kwok-local";

/** Classes of storage whose volumes kwok makes; claims without a class get the shared one. */
export function storageClasses(): readonly object[] {
  const one = (name: string, volumeBindingMode: string, isDefault: boolean) => ({
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name, annotations: { "storageclass.kubernetes.io/is-default-class": String(isDefault) } },
    provisioner: "kwok.x-k8s.io/volume",
    reclaimPolicy: "Retain",
    volumeBindingMode,
  });
  return [one(SHARED_CLASS, "Immediate", true), one(LOCAL_CLASS, "WaitForFirstConsumer", false)];
}

/** Text of a file for `kwok --config`. */
export function renderStages(): string {
  const ending: readonly Outcome[] = ["complete", "fail", "evicted"];
  const stages = [
    nodeStage(),
    stage("Pod", "pod-delete", [{ key: ".metadata.deletionTimestamp", operator: "Exists" }], {
      next: { delete: true },
    }),
    podStage(
      "pod-ready",
      ["ready"],
      ["In", ["none", "crash", "never-ready", "image-pull", "init-crash"]],
      READY,
    ),
    podStage("pod-starts", ending, ["In", ["none"]], READY),
    podStage("pod-completes", ["complete"], ["In", ["ready"]], COMPLETE, 200),
    podStage("pod-fails", ["fail"], ["In", ["ready"]], FAIL, 200),
    podStage("pod-is-evicted", ["evicted"], ["In", ["ready"]], EVICTED, 1_000),
    podStage("pod-crashes", ["crash"], ["NotIn", ["crash"]], CRASH),
    podStage("pod-does-not-initialize", ["init-crash"], ["NotIn", ["init-crash"]], INIT_CRASH),
    podStage("pod-is-never-ready", ["never-ready"], ["NotIn", ["never-ready"]], NEVER_READY),
    podStage("pod-has-no-image", ["image-pull"], ["NotIn", ["image-pull"]], IMAGE_PULL),
    claimStage("claim-is-provisioned", SHARED_CLASS, []),
    claimStage("claim-of-a-node-is-provisioned", LOCAL_CLASS, [{ key: SELECTED_NODE, operator: "Exists" }]),
  ];
  return stages.map((object) => JSON.stringify(object)).join("\n---\n");
}

type Expression = { readonly key: string; readonly operator: string; readonly values?: readonly string[] };

function stage(
  kind: "Node" | "Pod" | "PersistentVolumeClaim",
  name: string,
  matchExpressions: readonly Expression[],
  next: object,
  delay?: object,
) {
  return {
    apiVersion: "kwok.x-k8s.io/v1alpha1",
    kind: "Stage",
    metadata: { name },
    spec: {
      resourceRef: { apiGroup: "v1", kind },
      selector: { matchExpressions },
      ...next,
      ...(delay && { delay }),
    },
  };
}

/** Only the first time, so that a test may make a node not ready. Capacity is what the node was created with. */
function nodeStage() {
  const isNew = { key: '.status.conditions.[] | select(.type == "Ready")', operator: "DoesNotExist" };
  const conditions = `
conditions:
{{ range NodeConditions }}
- { lastHeartbeatTime: {{ Now | Quote }}, lastTransitionTime: {{ Now | Quote }}, message: {{ .message | Quote }}, reason: {{ .reason | Quote }}, status: {{ .status | Quote }}, type: {{ .type | Quote }} }
{{ end }}
phase: Running
`;
  return stage("Node", "node-starts", [isNew], { next: { statusTemplate: conditions } });
}

const SELECTED_NODE = '.metadata.annotations["volume.kubernetes.io/selected-node"]';

/** Only makes the volume: kube-controller-manager binds the claim to it. */
function claimStage(name: string, storageClass: string, more: readonly Expression[]) {
  const expressions = [
    { key: ".metadata.deletionTimestamp", operator: "DoesNotExist" },
    { key: ".spec.storageClassName", operator: "In", values: [storageClass] },
    { key: ".spec.volumeName", operator: "DoesNotExist" },
    ...more,
  ];
  const template = `
{{ $node := index (or .metadata.annotations dict) "volume.kubernetes.io/selected-node" }}
apiVersion: v1
kind: PersistentVolume
metadata: { name: pvc-{{ .metadata.uid }} }
spec:
  accessModes: {{ .spec.accessModes | toJson }}
  capacity: {{ .spec.resources.requests | toJson }}
  persistentVolumeReclaimPolicy: Retain
  storageClassName: {{ .spec.storageClassName | Quote }}
  claimRef: { apiVersion: v1, kind: PersistentVolumeClaim, name: {{ .metadata.name | Quote }}, namespace: {{ .metadata.namespace | Quote }}, uid: {{ .metadata.uid | Quote }} }
  hostPath: { path: /volumes/{{ .metadata.uid }} }
  {{ if $node }}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - { key: kubernetes.io/hostname, operator: In, values: [{{ $node | Quote }}] }
  {{ end }}
`;
  return stage("PersistentVolumeClaim", name, expressions, { steps: [{ apply: { template } }] });
}

function podStage(
  name: string,
  outcomes: readonly Outcome[],
  [operator, values]: readonly ["In" | "NotIn", readonly string[]],
  statusTemplate: string,
  durationMilliseconds = 0,
) {
  const byDefault = `if any(.metadata.ownerReferences[]?; .kind == "Job") then "complete" else "ready" end`;
  const wanted = `.metadata.annotations["${OUTCOME}"] // (${byDefault})`;
  const reached = `[.status.conditions[]? | select(.type == "${REACHED}") | .reason][0] // "none"`;
  const expressions = [
    { key: ".metadata.deletionTimestamp", operator: "DoesNotExist" },
    { key: wanted, operator: "In", values: outcomes },
    { key: reached, operator, values },
  ];
  const durationFrom = { jq: { expression: `.metadata.annotations["${AFTER}"]` } };
  return stage(
    "Pod",
    name,
    expressions,
    { next: { statusTemplate } },
    { durationMilliseconds, durationFrom },
  );
}

const KILLED = `{{ if eq $exitCode "137" }}OOMKilled{{ else }}Error{{ end }}`;
const TERMINATED = `exitCode: {{ $exitCode }}, message: {{ $message | Quote }}, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}`;
const COMPLETED = `{ terminated: { exitCode: 0, reason: Completed, message: {{ $message | Quote }}, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }} } }`;

const INITIALIZED =
  "ready: true, started: false, restartCount: 0, state: { terminated: { exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }} } }";

const READY = podStatus("ready", {
  phase: "Running",
  isReady: true,
  state: "{ running: { startedAt: {{ $now | Quote }} } }",
});
const NEVER_READY = podStatus("never-ready", {
  phase: "Running",
  isReady: false,
  // Its startup probe fails, where it has one.
  started: "{{ not .startupProbe }}",
  state: "{ running: { startedAt: {{ $now | Quote }} } }",
});
const COMPLETE = podStatus("complete", {
  phase: "Succeeded",
  isReady: false,
  state: COMPLETED,
  isOver: true,
  why: "PodCompleted",
});
const FAIL = podStatus("fail", {
  phase: "Failed",
  isReady: false,
  state: `{ terminated: { reason: ${KILLED}, ${TERMINATED} } }`,
  isOver: true,
  why: "PodFailed",
});
const EVICTED = podStatus("evicted", {
  phase: "Failed",
  isReady: false,
  state:
    "{ terminated: { exitCode: 137, reason: Error, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }} } }",
  isOver: true,
  why: "PodFailed",
  more: `
reason: Evicted
message: 'The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi.'
`,
});
const CRASH = podStatus("crash", {
  phase: "Running",
  isReady: false,
  restarts: 3,
  state: `{ waiting: { reason: CrashLoopBackOff, message: "back-off 40s restarting failed container" } }, lastState: { terminated: { reason: ${KILLED}, ${TERMINATED} } }`,
});
const INIT_CRASH = podStatus("init-crash", {
  phase: "Pending",
  isReady: false,
  state: "{ waiting: { reason: PodInitializing } }",
  // A kubelet shows the end of a container as its state for seconds up to its whole back-off, and then that it waits.
  init: `ready: false, started: false, restartCount: 1, state: { terminated: { reason: ${KILLED}, ${TERMINATED} } }, lastState: { terminated: { reason: ${KILLED}, ${TERMINATED} } }`,
});
const IMAGE_PULL = podStatus("image-pull", {
  phase: "Pending",
  isReady: false,
  // The words of a kubelet with containerd.
  state: `{ waiting: { reason: ImagePullBackOff, message: {{ printf "Back-off pulling image %q: ErrImagePull: failed to resolve reference %q: not found" .image .image | Quote }} } }`,
});

interface PodStatus {
  readonly phase: string;
  readonly isReady: boolean;
  /** Of every container. */
  readonly state: string;
  readonly restarts?: number;
  /** True if the container has started, as YAML; defaults to `isReady`. */
  readonly started?: string;
  /** Its sandbox is gone. */
  readonly isOver?: boolean;
  /** Of every init container, as YAML; completed unless given. */
  readonly init?: string;
  /** Reason for which it is not ready. */
  readonly why?: string;
  readonly more?: string;
}

function podStatus(
  reached: string,
  {
    phase,
    isReady,
    state,
    restarts = 0,
    started = String(isReady),
    isOver = false,
    init = INITIALIZED,
    why = "ContainersNotReady",
    more = "",
  }: PodStatus,
): string {
  const condition = (type: string, status: boolean, reason?: string) =>
    `- { type: ${type}, status: "${status ? "True" : "False"}", lastTransitionTime: {{ $now | Quote }}${reason === undefined ? "" : `, reason: ${reason}`} }`;
  const notReady = isReady ? undefined : why;
  const isInitialized = init === INITIALIZED;
  const completed = why === "PodCompleted" ? why : undefined;
  return `
{{ $now := Now }}
{{ $notes := or .metadata.annotations dict }}
{{ $exitCode := or (index $notes "${EXIT_CODE}") "1" }}
{{ $message := or (index $notes "${MESSAGE}") "" }}
phase: ${phase}
startTime: {{ or .status.startTime $now | Quote }}
conditions:
${condition(REACHED, true, reached)}
${condition("PodReadyToStartContainers", !isOver)}
${condition("Initialized", isInitialized, isInitialized ? completed : "ContainersNotInitialized")}
${condition("ContainersReady", isReady, notReady)}
${condition("Ready", isReady, notReady)}
{{ range .spec.readinessGates }}
${condition("{{ .conditionType | Quote }}", true)}
{{ end }}
initContainerStatuses:
{{ range .spec.initContainers }}
- { name: {{ .name | Quote }}, image: {{ .image | Quote }}, imageID: "", ${init} }
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- { name: {{ .name | Quote }}, image: {{ .image | Quote }}, imageID: "", ready: ${isReady}, started: ${started}, restartCount: ${restarts}, state: ${state} }
{{ end }}
{{ if not .status.podIP }}
{{ $ip := index $notes "${POD_IP}" }}
{{ $ips := PodIPsWith .spec.nodeName (or .spec.hostNetwork false) .metadata.uid .metadata.name .metadata.namespace }}
podIP: {{ or $ip (index $ips 0) | Quote }}
podIPs: [{ ip: {{ or $ip (index $ips 0) | Quote }} }]
{{ end }}
${more}`;
}
