/** Builds pods that run once, such as the probe of a node, and reads their status. Pure. */
import {
  type Container,
  isImageFailure,
  type Node,
  type Pod,
  type PodSpec,
} from "../../../src/kube/workload-objects.ts";
import { POD_USER } from "./contract.ts";

/** For containers that only run one of our programs. */
export const UNPRIVILEGED = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};

/**
 * Keeps Istio and Linkerd from adding a proxy to the pods of Jobs and probes: the proxy would keep them running, and their
 * traffic would wait for it.
 */
export const WITHOUT_MESH = {
  labels: { "sidecar.istio.io/inject": "false" },
  annotations: { "sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled" },
} as const;

export const PROBE_LABELS = {
  "app.kubernetes.io/name": "metalbridge-fit-probe",
  "app.kubernetes.io/managed-by": "metalbridge-cluster-fit",
};
const PROBE_CONTAINER = "probe";
const LEFTOVER_MS = 60_000;
/** A probe writes its result into this file, from which the kubelet puts it into the pod's status. */
export const ANSWER_FILE = "/dev/termination-log";

export interface ProbePodPlan {
  readonly name: string;
  readonly namespace: string;
  readonly node: string;
  readonly image: string;
  readonly pullSecrets: NonNullable<PodSpec["imagePullSecrets"]>;
  readonly deadlineSeconds: number;
  /** RuntimeClass of NVIDIA's container runtime, which adds nvidia-smi and the device files to the pod. */
  readonly runtimeClassName?: string;
}

/** Requests nvidia-smi from the runtime without taking a GPU from other pods. */
const NVIDIA_TOOLS = [
  { name: "NVIDIA_VISIBLE_DEVICES", value: "all" },
  { name: "NVIDIA_DRIVER_CAPABILITIES", value: "utility" },
];

/** A pod that reads its node. It is bound to the node directly, without the scheduler. */
export function fitProbePod({ name, namespace, node, ...plan }: ProbePodPlan): Pod {
  const { runtimeClassName } = plan;
  const spec = runOnceContainer(plan, {
    args: ["node", "--probe-to", ANSWER_FILE],
    env: runtimeClassName === undefined ? undefined : NVIDIA_TOOLS,
    resources: { requests: { cpu: "10m", memory: "64Mi" }, limits: { memory: "256Mi" } },
  });
  return {
    metadata: {
      name,
      namespace,
      labels: { ...WITHOUT_MESH.labels, ...PROBE_LABELS },
      annotations: WITHOUT_MESH.annotations,
    },
    spec: {
      ...spec,
      nodeName: node,
      tolerations: [{ operator: "Exists" }],
      runtimeClassName,
    },
  };
}

/** A pod with one container that runs once, meets the restricted Pod Security level, and has no API token. */
export function runOnceContainer(
  { image, pullSecrets, deadlineSeconds }: Pick<ProbePodPlan, "image" | "pullSecrets" | "deadlineSeconds">,
  container: Omit<Container, "name" | "image">,
): PodSpec {
  return {
    restartPolicy: "Never",
    // Stops the pod if the command is killed before it can delete the pod.
    activeDeadlineSeconds: deadlineSeconds,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 0,
    imagePullSecrets: pullSecrets,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: POD_USER,
      seccompProfile: { type: "RuntimeDefault" },
    },
    containers: [
      {
        name: PROBE_CONTAINER,
        image,
        ...container,
        terminationMessagePath: ANSWER_FILE,
        // Puts the output into the pod's status, because reading logs requires a separate permission.
        terminationMessagePolicy: "FallbackToLogsOnError",
        securityContext: UNPRIVILEGED,
      },
    ],
  };
}

export interface ProbeFailure {
  readonly at: "failed";
  readonly phase: "Failed" | "Timeout";
  readonly reason: string;
  readonly message: string;
}

export type ProbeEnd =
  | { readonly at: "answered"; readonly text: string; readonly node: string | undefined }
  | ProbeFailure;
export type ProbeOutcome = { readonly at: "waiting"; readonly why: string } | ProbeEnd;

export function readProbePod(pod: Pod): ProbeOutcome {
  const ended = probeState(pod)?.terminated;
  // A proxy that a mesh adds nevertheless keeps the pod running.
  if (pod.status?.phase === "Succeeded" || ended?.exitCode === 0)
    return { at: "answered", text: ended?.message ?? "", node: pod.spec.nodeName };
  if (pod.status?.phase === "Failed" || ended !== undefined) {
    const exit = ended === undefined ? "" : `exit code ${ended.exitCode}`;
    const message = pod.status?.message ?? (ended?.message || exit);
    return probeFailed(pod.status?.reason ?? ended?.reason ?? "Error", message);
  }
  const { at, why } = readWaitingPod(pod);
  return at === "stuck" ? probeFailed("ContainerNotStarted", why) : { at, why };
}

/** Finds the container by name, because a mesh may have put its proxy first. */
function probeState({ status }: Pod) {
  return status?.containerStatuses?.find(({ name }) => name === PROBE_CONTAINER)?.state;
}

export function probeFailed(
  reason: string,
  message: string,
  phase: ProbeFailure["phase"] = "Failed",
): ProbeFailure {
  return { at: "failed", phase, reason, message: message.slice(0, 1_024) };
}

/** True if the run that created the pod must have been killed: no run waits this long for its pods. */
export function isStaleProbePod({ metadata, spec }: Pod, nowMs: number): boolean {
  const createdMs = Date.parse(metadata.creationTimestamp ?? "");
  return nowMs - createdMs > (spec.activeDeadlineSeconds ?? 0) * 1_000 + LEFTOVER_MS;
}

/** The reason why a node cannot run a probe; undefined if it can. */
export function probeNodeFailure(node: Node | undefined): ProbeFailure | undefined {
  if (node === undefined) return probeFailed("NodeDeleted", "the node was deleted");
  const os = node.status?.nodeInfo?.operatingSystem ?? "linux";
  if (os !== "linux" && os !== "") return probeFailed("NodeNotLinux", `the node runs ${os}`);
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  if (ready?.status === "True") return undefined;
  return probeFailed("NodeNotReady", ready?.message || ready?.reason || "the node is not ready");
}

const TERMINAL_REASONS = ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"];

/** Reads a pod that has not finished. A stuck pod will not run without a change. */
function readWaitingPod(pod: Pod): { readonly at: "waiting" | "stuck"; readonly why: string } {
  const { phase = "Pending", conditions = [] } = pod.status ?? {};
  const { reason, message } = probeState(pod)?.waiting ?? {};
  if (reason !== undefined && reason !== "ContainerCreating") {
    const why = [reason, message].filter(Boolean).join(": ");
    const isStuck = isImageFailure(reason) || TERMINAL_REASONS.includes(reason);
    return { at: isStuck ? "stuck" : "waiting", why };
  }
  const unscheduled = conditions.find((one) => one.type === "PodScheduled" && one.status === "False");
  return { at: "waiting", why: unscheduled?.message ?? `the pod is ${phase}` };
}
