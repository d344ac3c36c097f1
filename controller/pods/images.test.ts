/** What a service says whose image no node can pull: of its own, of a BackendRuntime, and in a group. */
import { expect, test } from "vitest";
import { getCondition } from "../../src/api/conditions.ts";
import {
  ANNOTATION_GROUP_SIZE,
  LABEL_GROUP_INDEX,
  LABEL_GROUP_SET,
  LABEL_WORKER_INDEX,
} from "../../src/api/group.ts";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { modelSchema } from "../../src/api/model.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { readGroups } from "./groups/groups.ts";
import { readPods } from "./pods.ts";
import { planPodsStatus } from "./status.ts";
import { resolveGroups, resolvePods } from "./workload/resolve.ts";

const IMAGE = "registry.example/engine:v9";
const ERROR = `failed to resolve reference "${IMAGE}": ${IMAGE}: not found`;
const CACHED = { phase: "Ready", reason: "Downloaded", message: "", claimName: "c", folder: "f" };

const model = modelSchema.parse({
  metadata: { name: "m", namespace: "a" },
  spec: { source: "hf://org/m", format: "gguf", hardware: { accelerator: "cpu" } },
  status: {
    phase: "Ready",
    format: "gguf",
    files: ["m.gguf"],
    sizeBytes: 1e9,
    cache: { ...CACHED, file: "m.gguf" },
  },
});
const backend = {
  name: "own",
  hash: "h",
  spec: { engine: "llamacpp", image: IMAGE },
} as never;

/** As a kubelet reports a pod that has no image for its engine. */
function podStatus(isPulled: boolean): Pod["status"] {
  const state = isPulled
    ? { running: { startedAt: "2026-01-01T00:00:00Z" } }
    : {
        waiting: {
          reason: "ImagePullBackOff",
          message: `Back-off pulling image "${IMAGE}": ErrImagePull: ${ERROR}`,
        },
      };
  const ready = isPulled ? "True" : "False";
  const why = isPulled
    ? {}
    : { reason: "ContainersNotReady", message: "containers with unready status: [engine]" };
  return {
    phase: isPulled ? "Running" : "Pending",
    conditions: [
      { type: "PodReadyToStartContainers", status: "True" },
      { type: "Initialized", status: "True" },
      { type: "Ready", status: ready, ...why },
      { type: "ContainersReady", status: ready, ...why },
      { type: "PodScheduled", status: "True" },
    ],
    containerStatuses: [{ name: "engine", ready: isPulled, started: isPulled, restartCount: 0, state }],
  } as Pod["status"];
}

function podOf(name: string, isPulled: boolean, worker?: number): Pod {
  const ofGroup = {
    labels: { [LABEL_GROUP_SET]: "chat-group", [LABEL_GROUP_INDEX]: "0", [LABEL_WORKER_INDEX]: `${worker}` },
    annotations: { [ANNOTATION_GROUP_SIZE]: "2" },
  };
  return {
    metadata: { name, namespace: "a", uid: name, ...(worker !== undefined && ofGroup) },
    spec: { containers: [{ name: "engine", image: IMAGE }] },
    status: podStatus(isPulled),
  };
}

function statusOf(spec: object, pods: readonly Pod[]) {
  const service = inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "a", uid: "u" },
    spec: { modelRef: "m", ...spec },
  });
  const input = { service, model, loraModels: [], backend, settings: { images: {} } };
  const isGroup = service.spec.group !== undefined;
  const resolution = isGroup ? resolveGroups(input) : resolvePods(input);
  expect(resolution).toMatchObject({ at: "resolved" });
  return planPodsStatus(
    {
      ...{ service, model, resolution, obstacle: { at: "none" }, rejections: [], deployment: undefined },
      ...{ deferral: undefined, offload: undefined, queuePosition: undefined },
      pods: isGroup ? readGroups(pods) : readPods(pods),
    },
    "2026-01-01T00:00:00Z",
  );
}

const OWN = /set spec\.image to an image that the nodes can pull/;
const group = { image: IMAGE, group: { size: 2 } };

test.each<[string, object, readonly Pod[], RegExp]>([
  ["a service with an image", { image: IMAGE }, [podOf("chat-1", false)], OWN],
  [
    "a service with the image of a BackendRuntime",
    { backendRuntime: { name: "own" } },
    [podOf("chat-1", false)],
    /correct image and version of BackendRuntime own/,
  ],
  ["a group without leader", group, [podOf("chat-group-0", false, 0), podOf("chat-group-0-1", true, 1)], OWN],
  [
    "a group without a worker",
    group,
    [podOf("chat-group-0", true, 0), podOf("chat-group-0-1", false, 1)],
    OWN,
  ],
])("%s says which image of which pod cannot be pulled, and what to do", (_, spec, pods, remedy) => {
  const { phase, reason, message, conditions, readyReplicas } = statusOf(spec, pods);
  expect({ phase, reason, readyReplicas }).toEqual({
    phase: "Degraded",
    reason: "ImageUnavailable",
    readyReplicas: 0,
  });
  const failing = pods.find(({ status }) => status?.phase === "Pending")?.metadata.name;
  expect(message).toContain(`0 of 1 replicas ready; engine of ${failing}: ErrImagePull: ${ERROR}. To do: `);
  expect(message).toMatch(remedy);
  expect(message).toContain("spec.imagePullSecrets");
  for (const [type, status] of [
    ["Ready", "False"],
    ["Degraded", "True"],
  ] as const)
    expect(getCondition(conditions, type)).toMatchObject({ status, reason, message });
  expect(getCondition(conditions, "Available")).toMatchObject({ status: "False", reason: "NoReadyReplicas" });
});
