import { expect, test } from "vitest";
import { isAboutVolume, type SchedulingObstacle, schedulingObstacle } from "./scheduler-message.ts";

const OF_NODES = "0/3 nodes are available: ";
const PREEMPTION = ". preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";

test.each<[message: string, obstacle: SchedulingObstacle, isVolume?: boolean]>([
  ["3 Insufficient nvidia.com/gpu", "hardware"],
  ["1 Insufficient memory, 2 Insufficient nvidia.com/gpu", "hardware"],
  ["1 Too many pods, 2 node(s) didn't match Pod's node affinity/selector", "hardware"],
  ["1 node(s) were unschedulable, 2 node(s) had untolerated taint(s)", "hardware"],
  ["1 node(s) had untolerated taint {nvidia.com/gpu: present}, 2 Insufficient cpu", "hardware"],
  ["3 cannot allocate all claims", "hardware"],
  ["3 Insufficient nvidia.com/gpu. no new claims to deallocate,", "hardware"],
  ["request gpu: device class large.example.com does not exist", "hardware"],
  ["2 GPU has 24.0 GiB of memory, the model needs 40.0 GiB, 1 Insufficient nvidia.com/gpu", "hardware"],
  ["3 GPU vendor is AMD, the model needs NVIDIA", "hardware"],
  ["pod has unbound immediate PersistentVolumeClaims", "pendingVolume", true],
  [
    'waiting for ephemeral volume controller to create the persistentvolumeclaim "chat-models"',
    "pendingVolume",
    true,
  ],
  ['persistentvolumeclaim "models" not found', "other", true],
  ['persistentvolumeclaim "models" bound to non-existent persistentvolume "pv-1"', "other", true],
  ["1 node(s) had volume node affinity conflict, 2 Insufficient nvidia.com/gpu", "other", true],
  ["1 node(s) didn't find available persistent volumes to bind, 2 Insufficient cpu", "other", true],
  ["3 node(s) exceed max volume count", "other", true],
  ["3 node(s) didn't match PersistentVolume's node affinity", "other", true],
  ["1 node(s) didn't match pod affinity rules, 2 node(s) didn't match Pod's node affinity/selector", "other"],
  ["3 node(s) didn't match pod anti-affinity rules", "other"],
  ["3 node(s) didn't match pod topology spread constraints", "other"],
  ["3 node(s) didn't have free ports for the requested pod ports", "other"],
  ['resourceclaim "chat-gpu" not found', "other"],
  ["", "other"],
])("%s is %s", (reasons, obstacle, isVolume = false) => {
  for (const message of [reasons, `${OF_NODES}${reasons}.`, `${OF_NODES}${reasons}${PREEMPTION}`])
    expect([schedulingObstacle(message), isAboutVolume(message)]).toEqual([obstacle, isVolume]);
});
