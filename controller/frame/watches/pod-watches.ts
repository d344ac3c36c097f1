/** The watches of kinds that only services in pods need, with their groupings. */
import { LABEL_SERVICE, LABEL_WORKER_OF } from "../../../src/api/group.ts";
import { keyOf } from "../../../src/api/names.ts";
import { reportInConfigMap } from "../../../src/api/node-report.ts";
import { createGrouping, type Grouping } from "../../../src/cluster/grouping.ts";
import { INFORMERS } from "../../../src/cluster/informers.ts";
import { REASON_KIND_NOT_INSTALLED } from "../../../src/kube/errors.ts";
import { DEVICE_CLASSES, LEADER_WORKER_SETS, QUEUE_WORKLOADS } from "../../../src/kube/kinds.ts";
import type { ConfigMap } from "../../../src/kube/objects.ts";
import type { ApiFailure, KubeObject, Reflector } from "../../../src/kube/types.ts";
import {
  hasPodEnded,
  type KindDefinition,
  type Node,
  type Pod,
  type QueueWorkload,
  type ResourceSlice,
} from "../../../src/kube/workload-objects.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import type { Emit, StartWatch } from "./contract.ts";
import { definitionWatch } from "./group-kind.ts";

export interface PodWatches {
  /** The definition of LeaderWorkerSet, without its schemas. */
  readonly groupKind: Reflector<KindDefinition>;
  /** Resolves once `groupKind` is complete, or cannot be read. */
  readonly whenGroupKindKnown: () => Promise<void>;
  /** Pods of our Deployments and groups only. */
  readonly pods: Reflector<Pod>;
  /** Nodes, for services with placement.mode Auto. */
  readonly nodes: Reflector<Node>;
  /** Devices that drivers of dynamic resource allocation offer. Empty if the cluster lacks the kind. */
  readonly resourceSlices: Reflector<ResourceSlice>;
  /** Kinds of devices, with their names only. Empty if the cluster lacks the kind. */
  readonly deviceClasses: Reflector<KubeObject>;
  /** Resolves once `deviceClasses` is complete, or the cluster is known to have none. */
  readonly whenDeviceClassesKnown: () => Promise<void>;
  /** Requests for quota of Kueue, with their conditions only. Empty if the cluster lacks the kind. */
  readonly queueWorkloads: Reflector<QueueWorkload>;
  /** Reports that nodes publish. */
  readonly nodeReports: Reflector<ConfigMap>;
}

export interface PodGroupings {
  readonly podsOfService: Grouping<Pod>;
  readonly podsOfNode: Grouping<Pod>;
  readonly resourceSlicesOfNode: Grouping<ResourceSlice>;
  /** Kueue's Workloads by the uids of their owners. */
  readonly queueWorkloadsOfOwner: Grouping<QueueWorkload>;
}

export function createPodGroupings(): PodGroupings {
  return {
    podsOfService: createGrouping<Pod>(serviceOfPod),
    podsOfNode: createGrouping<Pod>(({ spec: { nodeName } }) => (nodeName === undefined ? [] : [nodeName])),
    resourceSlicesOfNode: createGrouping<ResourceSlice>(({ spec: { nodeName } }) =>
      nodeName === undefined ? [] : [nodeName],
    ),
    queueWorkloadsOfOwner: createGrouping<QueueWorkload>(({ metadata }) =>
      (metadata.ownerReferences ?? []).map(({ uid }) => uid),
    ),
  };
}

/** `onGroupKind` is called before the handler of that name. */
export function startPodWatches(
  start: StartWatch,
  groupings: PodGroupings,
  emit: Emit,
  onGroupKind: () => void,
): PodWatches {
  const pods = start({
    ...INFORMERS.pods,
    onChange: (key, pod: Pod | undefined, before) => {
      groupings.podsOfNode.note(key, pod, before);
      const services = groupings.podsOfService.note(key, pod, before);
      emit((on) => services.forEach(on.onService));
      if (busyNodeOf(pod) !== busyNodeOf(before)) emit((on) => on.onBenchmarkFacts());
    },
  });
  return {
    pods,
    ...watchGroupKind(start, () => {
      onGroupKind();
      emit((on) => on.onGroupKind());
    }),
    ...watchDeviceClasses(start, emit),
    nodes: start({
      ...INFORMERS.nodes,
      onChange: (_, node, before) => emit((on) => on.onNode(node, before)),
    }),
    resourceSlices: start({
      ...INFORMERS.slices,
      onChange: (key, slice, before) => {
        const nodes = groupings.resourceSlicesOfNode.note(key, slice, before);
        emit((on) => nodes.forEach(on.onNodeSlice));
      },
    }),
    queueWorkloads: start({
      kind: QUEUE_WORKLOADS,
      isOptional: true,
      keep: withoutPodTemplates,
      onChange: (key, workload, before) => {
        groupings.queueWorkloadsOfOwner.note(key, workload, before);
        const services = podOwners(workload ?? before).flatMap((pod) => serviceOfPod(pods.get(pod)));
        emit((on) => services.forEach(on.onService));
      },
    }),
    nodeReports: start({
      ...INFORMERS.reports,
      onChange: (_, report, before) => emit((on) => on.onNodeReport(report, before)),
    }),
  };
}

function watchGroupKind(
  start: StartWatch,
  onChange: () => void,
): Pick<PodWatches, "groupKind" | "whenGroupKindKnown"> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const onFailure = ({ kind }: ApiFailure) => kind === "forbidden" && resolve();
  const groupKind = start({ ...definitionWatch(LEADER_WORKER_SETS), onChange, onSynced: resolve, onFailure });
  if (groupKind.isSynced()) resolve();
  return { groupKind, whenGroupKindKnown: () => promise };
}

function watchDeviceClasses(
  start: StartWatch,
  emit: Emit,
): Pick<PodWatches, "deviceClasses" | "whenDeviceClassesKnown"> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const deviceClasses = start({
    kind: DEVICE_CLASSES,
    isOptional: true,
    keep: ({ metadata: { name, uid, resourceVersion } }) => ({ metadata: { name, uid, resourceVersion } }),
    onChange: (name, now, before) => {
      if (now === undefined || before === undefined) emit((on) => on.onDeviceClass(name));
    },
    onSynced: resolve,
    onFailure: ({ kind, reason }) => {
      if (reason === REASON_KIND_NOT_INSTALLED || kind === "forbidden") resolve();
    },
  });
  if (deviceClasses.isSynced()) resolve();
  return { deviceClasses, whenDeviceClassesKnown: () => promise };
}

/** Node whose devices the pod uses. */
function busyNodeOf(pod: Pod | undefined): string | undefined {
  return pod === undefined || hasPodEnded(pod) ? undefined : pod.spec.nodeName;
}

/** `namespace/name` of the service that a pod belongs to. */
export function serviceOfPod(pod: Pod | undefined): readonly string[] {
  if (pod === undefined) return [];
  const { [LABEL_SERVICE]: service, [LABEL_WORKER_OF]: group } = pod.metadata.labels ?? {};
  return groupOf(pod, service ?? group);
}

/** The group `namespace/service` of an object. */
export function groupOf({ metadata }: KubeObject, service: string | undefined): readonly string[] {
  return service === undefined ? [] : [keyOf({ namespace: metadata.namespace, name: service })];
}

/** `namespace/name` of the pods that own a Workload. */
function podOwners(workload: QueueWorkload | undefined): readonly string[] {
  const { namespace, ownerReferences = [] } = workload?.metadata ?? {};
  return ownerReferences.flatMap(({ kind, name }) => (kind === "Pod" ? keyOf({ namespace, name }) : []));
}

/** A Workload repeats the template of its pods, and batch clusters have many of them. */
function withoutPodTemplates({ apiVersion, kind, metadata, status }: QueueWorkload): QueueWorkload {
  const { name, namespace, uid, resourceVersion, ownerReferences } = metadata;
  return {
    apiVersion,
    kind,
    metadata: { name, namespace, uid, resourceVersion, ownerReferences },
    status: { conditions: status?.conditions },
  };
}

/** True if the part of a report of a node that placement reads has changed. Free memory and installed software are not. */
export function hasOtherCapacity(report: ConfigMap | undefined, before: ConfigMap | undefined): boolean {
  return !isDeepEqual(capacityIn(report), capacityIn(before));
}

function capacityIn(map: ConfigMap | undefined) {
  const read = reportInConfigMap(map);
  if (read?.at !== "known") return read;
  const { memory, cpu, gpus } = read.report;
  return { totalBytes: memory?.totalBytes, cores: cpu.cores, gpus };
}
