/** Services as pods on Linux nodes: invalid pods, and pods that do not serve. */
import type { ErrorEntry } from "./entry.ts";

/** Command that installs the kinds and the controller of LeaderWorkerSet. */
export const LWS_INSTALL =
  "kubectl apply --server-side -f https://github.com/kubernetes-sigs/lws/releases/download/v0.9.0/manifests.yaml";

export const podErrors = {
  PodsDisabled: {
    what: "This installation runs services on hosts only, but the service or Model would run in pods because of spec.placement.on or the accelerator of the Model.",
    do: "set spec.placement.on to Hosts, or install the chart with pods.enabled=true (a controller outside the cluster: without --hosts-only)",
  },
  ImageInvalid: {
    what: "The name of a container image is not in the form [registry/]repository:tag or @digest. Without a tag, nodes would run different versions.",
    do: "add the tag or the digest of the version to spec.image, or to the image in the controller's configuration",
  },
  ImageUnknown: {
    what: "Metalbridge has no image of this runtime for the accelerator.",
    do: "set spec.image, or choose another accelerator",
  },
  GPURequestInvalid: {
    what: "The GPU request of the Model or the service is invalid.",
    do: "correct spec.hardware.gpu of the Model or spec.resources of the service as described in the message",
  },
  GroupUnsupported: {
    what: "The service requests a group of pods, but its runtime cannot serve a model over several pods, or the service runs on hosts.",
    do: "choose runtime llamacpp, vllm, sglang or tensorrt-llm and set spec.placement.on to Pods, or remove spec.group",
  },
  LeaderWorkerSetMissing: {
    what: "The service requests a group of pods, but the cluster lacks LeaderWorkerSet in version v1, which runs groups.",
    do: "install LeaderWorkerSet 0.9 or newer, for example with leaderWorkerSet.enabled of the chart; the service then continues automatically",
    command: LWS_INSTALL,
  },
  GateNotInPods: {
    what: "The service needs the gate, which runs on hosts only: TLS, or API keys for a runtime that does not check them.",
    do: "set spec.placement.on to Hosts, or remove spec.auth and spec.endpoint.tls and use a Gateway or an Ingress for them",
  },
  WeightsNotCached: {
    what: "The engine reads its weights from a volume, but no volume contains them.",
    do: "remove spec.skipModelInit, or choose a runtime that fetches weights itself (vllm, sglang, tgi); for spec.modelCache.persistence Ephemeral set --image of the controller",
  },
  VolumeReserved: {
    what: "spec.extraVolumeMounts names a volume node-0, node-1, …: these are the folders of nodes that Metalbridge mounts read-only for weights.",
    do: "remove the mount; for a volume of your own in spec.extraVolumes, choose another name",
  },
  PodArgumentsTooLong: {
    what: "The arguments and variables of the container exceed the size limit of a pod.",
    do: "shorten spec.args, spec.extraArgs and spec.env; put long texts into a ConfigMap and mount it with spec.extraVolumes",
  },
  InsufficientGPU: {
    what: "No node has enough free GPUs (or other devices) for a pod of the service.",
    do: "wait, free a GPU, add a node, or request fewer GPUs for each pod; status.queuePosition is the position in the queue",
    command: "kubectl describe pods -l metalbridge.dev/service=NAME",
  },
  InsufficientResources: {
    what: "No node has enough free CPU, memory or storage for a pod of the service.",
    do: "lower spec.resources, free resources on a node, or add a node",
    command: "kubectl describe pods -l metalbridge.dev/service=NAME",
  },
  DeviceClassMissing: {
    what: "A pod requests devices of a DeviceClass that does not exist, so kube-scheduler places it nowhere, even if the other flavors of the claim have free devices. Pods that have their devices keep running.",
    do: "create the DeviceClass again (the driver's chart has it), or remove deviceClass from that flavor of the Model",
    command: "kubectl get deviceclasses",
  },
  WaitingForQuota: {
    what: "Kueue holds pods of the service until their queue has quota for them. The message has the reason that Kueue reports.",
    do: "wait, raise the quota of the ClusterQueue, or name another queue with the label kueue.x-k8s.io/queue-name of the service",
    command: "kubectl get workloads.kueue.x-k8s.io -n NAMESPACE",
  },
  QueueEvicted: {
    what: "Kueue has evicted a pod of the service from its queue, for example for a workload of higher priority. The Deployment creates a new pod, which waits for quota.",
    do: "wait, or give the service a higher priority in the queue with the label kueue.x-k8s.io/priority-class",
    command: "kubectl describe workloads.kueue.x-k8s.io -n NAMESPACE",
  },
  QueueNotManaged: {
    what: "The service names a queue of Kueue, but Kueue does not manage its pods, so they start without quota.",
    do: "install Kueue 0.15 or newer with the integrations deployment and pod, and let it manage the namespace",
    command: "kubectl get crd workloads.kueue.x-k8s.io",
  },
  UnbindableModelCache: {
    what: "The volume of the model cache cannot be provisioned, or no node that the download Job or a pod of the service may use can mount it. With access mode ReadWriteOnce all pods that mount a volume run on one node.",
    do: "read the message: create the storage class or set --cache-storage-class of the controller; for pods on several nodes, use access mode ReadWriteMany or spec.modelCache.persistence Ephemeral, or uncordon the volume's node, or free devices and memory on it; if the claim is on a node or in a zone that the pods cannot use, delete it, and it is created again",
    command: "kubectl describe pvc -n NAMESPACE",
  },
  VolumeNotMounted: {
    what: "A pod is scheduled, but one of its volumes cannot be attached or mounted on the node: it is attached to another node, or the storage reports an error.",
    do: "read the message; a volume with access mode ReadWriteOnce is detached from another node once its pods there have stopped, or, if that node is lost, after its VolumeAttachment is deleted; use access mode ReadWriteMany for pods on several nodes",
    command: "kubectl get volumeattachments",
  },
  PodUnschedulable: {
    what: "Scheduling rules exclude every node for the pods of the service: taints, node selector, affinity or topology spread. With required pod affinity and a model cache that pods fill, pods must match both.",
    do: "label or untaint a node, or change nodeSelector, tolerations, affinity or topologySpreadConstraints",
    command: "kubectl describe pods -l metalbridge.dev/service=NAME",
  },
  ImageUnavailable: {
    what: "The image of a container cannot be pulled. The message has the error of the node.",
    do: "set spec.image to an image that the nodes can pull, or correct the image of the BackendRuntime; for a private registry, add its credentials to spec.imagePullSecrets",
    command: "kubectl describe pods -l metalbridge.dev/service=NAME",
  },
  PodConfigInvalid: {
    what: "The container cannot be created. The usual cause is a missing Secret, Secret key or ConfigMap.",
    do: "create what the message names",
    command: "kubectl describe pods -l metalbridge.dev/service=NAME",
  },
  PodCrashing: {
    what: "A container of a pod has exited and was not restarted; the message has its last exit code and last log line. OOMKilled: it used more memory than its limit, or the node ran out of memory.",
    do: "read its log; if it was OOMKilled, raise spec.resources.memory, of the Model for the container fetch and of the service for the engine, or the limit in spec.resources.limits.memory or of a LimitRange of the namespace",
    command: "kubectl logs -l metalbridge.dev/service=NAME --previous",
  },
  PodFailed: {
    what: "A pod failed and was not restarted.",
    do: "read the reason",
    command: "kubectl describe pods -l metalbridge.dev/service=NAME",
  },
  PodEvicted: {
    what: "A kubelet has evicted a pod, because the pod exceeded its disk limit or its node was short of memory or disk. The Deployment has replaced it, but the new pod is not ready.",
    do: "raise spec.resources.ephemeralStorage or spec.resources.memory of the service, or free memory or disk on the node",
    command: "kubectl get events --field-selector reason=Evicted",
  },
  NodeNotReady: {
    what: "The node of a pod does not report to the API server: it is down or disconnected. Its pods count as not ready and receive no requests through the Service, even if they still run.",
    do: "bring the node back; its pods are rescheduled once their toleration of node.kubernetes.io/unreachable expires (300 s unless spec.tolerations has tolerationSeconds), or within a minute after you delete the Node object of a node that will not return",
    command: "kubectl describe node NODE",
  },
  NoLayersOnGPU: {
    what: "A pod has a GPU, but its engine cannot use it and computes on the CPU.",
    do: "check the driver and the device plugin of the node, and that the image is built for this kind of GPU and not for a newer driver; then delete the pod",
    command: "kubectl logs -l metalbridge.dev/service=NAME --tail=-1",
  },
  LayersOnCPU: {
    what: "The engine computes some layers of the model on the CPU although no field requests that.",
    do: "request a GPU with more memory, or lower contextSize, parallelSlots or the quantization; set spec.hardware.gpu.layers if fewer layers are intended",
    command: "kubectl logs -l metalbridge.dev/service=NAME --tail=-1",
  },
  RolloutDeadlineExceeded: {
    what: "The new pods did not become ready within the time limit, which scales with the size of the model; old pods keep serving.",
    do: "read the log of the new pods, correct the spec, or roll back",
    command: "kubectl logs -l metalbridge.dev/service=NAME",
  },
} as const satisfies Record<string, ErrorEntry>;
