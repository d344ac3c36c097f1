/** Pods that run once: the one that reads a node, and what the status of any says. Pure. */
import type { Container, Node, Pod, PodSpec } from "../../src/kube/workload-objects.ts";
import { POD_USER } from "./contract.ts";

/**
 * Pods of Jobs and probes stay out of the meshes that add a proxy to each pod: it would keep them running, and their
 * traffic would wait for it. Both read labels or annotations of the pod.
 */
export const WITHOUT_MESH = {
  labels: { "sidecar.istio.io/inject": "false" },
  annotations: { "sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled" },
} as const;

export const PROBE_LABELS = {
  "app.kubernetes.io/name": "metalbridge-fit-probe",
  "app.kubernetes.io/managed-by": "metalbridge-cluster-fit",
};
/** One run of the command has one value. */
export const LABEL_RUN = "metalbridge.dev/fit-run";
const PROBE_CONTAINER = "probe";
const LEFTOVER_MS = 60_000;
const ANSWER_FILE = "/dev/termination-log";

export interface ProbePodPlan {
  readonly name: string;
  readonly namespace: string;
  readonly node: string;
  /** Of the command that started it. */
  readonly run?: string;
  readonly image: string;
  readonly pullSecrets: NonNullable<PodSpec["imagePullSecrets"]>;
  readonly deadlineSeconds: number;
  /** Of NVIDIA's container runtime, which puts nvidia-smi and the device files into the pod. */
  readonly runtimeClassName?: string | undefined;
}

/** What the runtime is asked for; it takes no GPU from other pods. */
const NVIDIA_TOOLS = [
  { name: "NVIDIA_VISIBLE_DEVICES", value: "all" },
  { name: "NVIDIA_DRIVER_CAPABILITIES", value: "utility" },
];

/** Bound past the scheduler. */
export function fitProbePod({ name, namespace, node, run, ...plan }: ProbePodPlan): Pod {
  const { runtimeClassName } = plan;
  const spec = runOnceContainer(plan, {
    args: ["cluster-fit", "--probe-to", ANSWER_FILE],
    env: runtimeClassName === undefined ? undefined : NVIDIA_TOOLS,
    terminationMessagePath: ANSWER_FILE,
    resources: { requests: { cpu: "10m", memory: "64Mi" }, limits: { memory: "256Mi" } },
  });
  return {
    metadata: {
      name,
      namespace,
      labels: { ...WITHOUT_MESH.labels, ...PROBE_LABELS, ...(run === undefined ? {} : { [LABEL_RUN]: run }) },
      annotations: WITHOUT_MESH.annotations,
    },
    spec: {
      ...spec,
      nodeName: node,
      tolerations: [{ operator: "Exists" }],
      ...(runtimeClassName === undefined ? {} : { runtimeClassName }),
    },
  };
}

/** One container that runs once and ends. Allowed at the restricted security level; without a token of the API server. */
export function runOnceContainer(
  { image, pullSecrets, deadlineSeconds }: Pick<ProbePodPlan, "image" | "pullSecrets" | "deadlineSeconds">,
  container: Omit<Container, "name" | "image">,
): PodSpec {
  return {
    restartPolicy: "Never",
    // Stops it where the command was killed before it could delete it.
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
        // What it printed is then in the pod's status: reading logs would be a right of its own.
        terminationMessagePolicy: "FallbackToLogsOnError",
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        },
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

export type PodEnd =
  | { readonly at: "waiting"; readonly why: string }
  | { readonly at: "answered"; readonly text: string }
  | ProbeFailure;

export function readFitPod(pod: Pod): PodEnd {
  const ended = probeState(pod)?.terminated;
  // A proxy that a mesh adds all the same keeps the pod running.
  if (pod.status?.phase === "Succeeded" || ended?.exitCode === 0)
    return { at: "answered", text: ended?.message ?? "" };
  if (pod.status?.phase === "Failed" || ended !== undefined) {
    const exit = ended === undefined ? "" : `exit code ${ended.exitCode}`;
    const message = pod.status?.message ?? (ended?.message || exit);
    return probeFailed(pod.status?.reason ?? ended?.reason ?? "Error", message);
  }
  const seen = whyWaiting(pod);
  return seen.at === "stuck"
    ? probeFailed("ContainerNotStarted", seen.why)
    : { at: "waiting", why: seen.why };
}

/** By name: a mesh may have put its proxy first. */
export function probeState({ status }: Pod) {
  return status?.containerStatuses?.find(({ name }) => name === PROBE_CONTAINER)?.state;
}

export function probeFailed(
  reason: string,
  message: string,
  phase: ProbeFailure["phase"] = "Failed",
): ProbeFailure {
  return { at: "failed", phase, reason, message: message.slice(0, 1_024) };
}

/** Its run was killed: no run waits that long for its pods. */
export function isStaleProbePod({ metadata, spec }: Pod, nowMs: number): boolean {
  const createdMs = Date.parse(metadata.creationTimestamp ?? "");
  return nowMs - createdMs > (spec.activeDeadlineSeconds ?? 0) * 1_000 + LEFTOVER_MS;
}

/** Why no pod of it can answer; undefined while it can. */
export function probeNodeFailure(node: Node | undefined): ProbeFailure | undefined {
  if (node === undefined) return probeFailed("NodeDeleted", "the node was deleted");
  const os = node.status?.nodeInfo?.operatingSystem ?? "linux";
  if (os !== "linux" && os !== "") return probeFailed("NodeNotLinux", `the node runs ${os}`);
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  if (ready?.status === "True") return undefined;
  return probeFailed("NodeNotReady", ready?.message || ready?.reason || "the node is not ready");
}

const TERMINAL = [
  "ErrImagePull",
  "ImagePullBackOff",
  "ErrImageNeverPull",
  "InvalidImageName",
  "CreateContainerConfigError",
  "CreateContainerError",
  "RunContainerError",
];

/** Of a pod that has not ended. Stuck: it will not run without a change. */
export function whyWaiting(pod: Pod): { readonly at: "waiting" | "stuck"; readonly why: string } {
  const { phase = "Pending", conditions = [] } = pod.status ?? {};
  const { reason, message } = probeState(pod)?.waiting ?? {};
  if (reason !== undefined && reason !== "ContainerCreating") {
    const why = [reason, message].filter(Boolean).join(": ");
    return { at: TERMINAL.includes(reason) ? "stuck" : "waiting", why };
  }
  const unscheduled = conditions.find((one) => one.type === "PodScheduled" && one.status === "False");
  return { at: "waiting", why: unscheduled?.message ?? `the pod is ${phase}` };
}
