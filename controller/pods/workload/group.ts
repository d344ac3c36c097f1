/** Builds the LeaderWorkerSet of a service whose model is served by groups of pods. Pure; throws only MetalbridgeError. */

import { MetalbridgeError } from "../../../src/api/errors.ts";
import {
  ANNOTATION_EXCLUSIVE_TOPOLOGY,
  ANNOTATION_IN_FLIGHT,
  LABEL_SERVICE,
  LABEL_WORKER_OF,
} from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { groupName } from "../../../src/api/names.ts";
import { familyLabels, MANAGED_BY, ownedObjectRef, ownerLabels } from "../../../src/api/owned.ts";
import {
  type GroupRuntime,
  LEADER_POD,
  type PodGroup,
  workerAddresses,
} from "../../../src/engines/contract/group.ts";
import type { PodRuntime } from "../../../src/engines/contract/pod.ts";
import { engineDescription } from "../../../src/engines/registry.ts";
import type { Container, LeaderWorkerSet, PodTemplate } from "../../../src/kube/workload-objects.ts";
import { defined } from "../../../src/util/defined.ts";
import type { GroupWorkload, WorkloadInput } from "./contract.ts";
import { waitForLeaderOf } from "./drain.ts";
import { podTemplateOf } from "./pod.ts";
import { queueLabels } from "./queue-labels.ts";
import { withCommonRevision } from "./revision.ts";
import { groupStrategyOf, hasDevices } from "./strategy.ts";
import { type EnginePod, enginePodOf, podRuntime, surroundingsOf } from "./workload.ts";

/** Throws MetalbridgeError if no group can be built from the input. */
export function buildGroup(input: WorkloadInput): GroupWorkload {
  const pod = podRuntime(input);
  const { group } = engineDescription(input.runtime) ?? {};
  const { group: spec } = input.service.spec;
  if (group === undefined || spec === undefined) {
    const message = `runtime ${input.runtime} cannot serve a model over several pods`;
    throw new MetalbridgeError("GroupUnsupported", message);
  }
  const { name, namespace } = ownedObjectRef(input.service, groupName(input.service.metadata.name));
  const pods: PodGroup = { size: spec.size, domain: `${name}.${namespace}` };
  return {
    group: leaderWorkerSetOf(input, spec, templatesOf(input, pod, group, pods)),
    ...surroundingsOf(input, pod),
  };
}

type Templates = { readonly leaderTemplate: PodTemplate; readonly workerTemplate: PodTemplate };

function leaderWorkerSetOf(
  { service, model, replicas }: WorkloadInput,
  { size, restartPolicy, topologyKey }: NonNullable<InferenceService["spec"]["group"]>,
  templates: Templates,
): LeaderWorkerSet {
  return {
    apiVersion: "leaderworkerset.x-k8s.io/v1",
    kind: "LeaderWorkerSet",
    metadata: {
      ...ownedObjectRef(service, groupName(service.metadata.name)),
      labels: { ...queueLabels(service), ...familyLabels(model), ...ownerLabels(service), ...MANAGED_BY },
      annotations: defined<Record<string, string>>({ [ANNOTATION_EXCLUSIVE_TOPOLOGY]: topologyKey }),
    },
    spec: {
      replicas,
      // No leader becomes ready without its workers, so they must not wait until it is.
      startupPolicy: "LeaderCreated",
      leaderWorkerTemplate: { size, restartPolicy, ...templates },
      rolloutStrategy: {
        type: "RollingUpdate",
        rollingUpdateConfiguration: {
          partition: 0,
          ...groupStrategyOf({
            rollout: service.spec.rollout,
            hasDevices: hasDevices(templates.leaderTemplate.spec),
            replicas,
          }),
        },
      },
    },
  };
}

function templatesOf(input: WorkloadInput, pod: PodRuntime, group: GroupRuntime, pods: PodGroup): Templates {
  const leader = enginePodOf(input, pod, (engine) => {
    if (group.needsOwnImage !== undefined && engine.hasPinnedImage)
      throw new MetalbridgeError("ImageUnknown", group.needsOwnImage);
    return group.leader(engine, pods);
  });
  const worker = enginePodOf(workerInput(input, group), pod, (engine) => group.worker(engine, pods));
  return withCommonRevision({
    leaderTemplate: withInitContainer(templateOf(input, pod, leader), waitForWorkers(leader, group, pods)),
    workerTemplate: workerTemplateOf(input.service, {
      ...templateOf(input, pod, worker),
      container: workerContainerOf(worker, pod, group, input.service.spec.rollout.drainSeconds),
    }),
  });
}

/** Workers answer no clients, so they get no API key. */
function workerInput(input: WorkloadInput, { isFedByLeader }: GroupRuntime): WorkloadInput {
  const { service, model } = input;
  const without = { ...input, service: { ...service, spec: { ...service.spec, auth: undefined } } };
  if (isFedByLeader !== true) return without;
  const { mmproj: _, ...spec } = model.spec;
  return {
    ...without,
    model: { ...model, spec },
    weights: undefined,
    draftWeights: undefined,
    projectorWeights: undefined,
    adapterWeights: [],
  };
}

function templateOf(
  { service, model, settings, flavors }: WorkloadInput,
  pod: PodRuntime,
  one: EnginePod,
): PodTemplate {
  return podTemplateOf({
    service,
    model,
    pod,
    gpus: one.gpus,
    files: one.files,
    container: one.container,
    settings,
    flavors,
    isAlone: false,
  });
}

/** The Service selects pods by LABEL_SERVICE. */
function workerTemplateOf(
  { metadata: { name } }: InferenceService,
  { metadata, spec, container }: PodTemplate & { readonly container: Container },
): PodTemplate {
  const { [LABEL_SERVICE]: _, ...labels } = metadata?.labels ?? {};
  const { [ANNOTATION_IN_FLIGHT]: __, ...annotations } = metadata?.annotations ?? {};
  return {
    metadata: { labels: { ...labels, [LABEL_WORKER_OF]: name }, annotations },
    spec: { ...spec, containers: [container] },
  };
}

/** No probe of a worker sends requests: some workers serve one client only, and others have no HTTP server. */
function workerContainerOf(
  { container, input }: EnginePod,
  pod: PodRuntime,
  { workerPort }: GroupRuntime,
  drainSeconds: number,
): Container {
  const { ports: _, startupProbe: __, readinessProbe: ___, ...rest } = container;
  return {
    ...rest,
    livenessProbe: {
      ...(workerPort === undefined
        ? { exec: { command: PROCESS_WORKS } }
        : { tcpSocket: { port: workerPort } }),
      initialDelaySeconds: 15,
      periodSeconds: 15,
      timeoutSeconds: 5,
      failureThreshold: 3,
    },
    lifecycle: { preStop: waitForLeaderOf({ port: input.port, path: pod.healthPath, drainSeconds }) },
  };
}

/** Fails if the engine is stopped or a zombie. A kubelet restarts the container of an engine that has exited. */
const PROCESS_WORKS = ["grep", "-q", "^State:[[:space:]]*[RSD]", "/proc/1/status"];

/** Opens one connection to each worker, and repeats it only until it succeeds. */
function waitForWorkers({ container }: EnginePod, { connectsTo }: GroupRuntime, pods: PodGroup): Container[] {
  if (connectsTo === undefined) return [];
  const { image, securityContext } = container;
  return [
    {
      name: "wait-for-workers",
      image,
      command: ["/bin/bash", "-c", WAIT_FOR_WORKERS, String(connectsTo)],
      args: workerAddresses(pods),
      env: [{ name: LEADER_POD.name, valueFrom: { fieldRef: { fieldPath: LEADER_POD.field } } }],
      resources: { requests: { cpu: "10m", memory: "16Mi" } },
      securityContext,
      terminationMessagePolicy: "FallbackToLogsOnError",
    },
  ];
}

const WAIT_FOR_WORKERS = `for worker in "$@"; do
  until { exec 3<>"/dev/tcp/$worker/$0"; } 2>/dev/null; do sleep 1; done
  exec 3>&-
done
`;

function withInitContainer(template: PodTemplate, further: readonly Container[]): PodTemplate {
  if (further.length === 0) return template;
  const { initContainers = [] } = template.spec;
  return { ...template, spec: { ...template.spec, initContainers: [...initContainers, ...further] } };
}
