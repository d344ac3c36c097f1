/** Pods that wait for their volumes, by the Events that a kubelet and the attach controller write. */
import { expect, test } from "vitest";
import type { KubeEvent } from "../../src/kube/objects.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { isMounting, mountProblemIn } from "./mounts.ts";

const event = (reason: string, note: string, resourceVersion = "1") =>
  ({ metadata: { name: "e", resourceVersion }, reason, note, eventTime: "" }) as KubeEvent;

test.each<[events: KubeEvent[], code: string | undefined, message?: RegExp]>([
  [[event("Pulled", "pulled"), event("FailedScheduling", "no node")], undefined],
  [
    [
      event(
        "FailedAttachVolume",
        'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) chat-1',
      ),
    ],
    "VolumeNotMounted",
    /^chat-2: FailedAttachVolume: Multi-Attach error for volume/,
  ],
  [
    [
      event("FailedMount", 'MountVolume.SetUp failed for volume "api-key" : secret "keys" not found', "9"),
      event("FailedAttachVolume", "AttachVolume.Attach failed", "8"),
    ],
    "PodConfigInvalid",
    /secret "keys" not found/,
  ],
  [
    [
      event(
        "FailedMount",
        'MountVolume.SetUp failed for volume "k" : references non-existent secret key: token',
      ),
    ],
    "PodConfigInvalid",
  ],
  [[event("FailedMount", "mount failed: exit status 32")], "VolumeNotMounted", /exit status 32/],
])("%j means %s", (events, code, message = /./) => {
  const problem = mountProblemIn("chat-2", events);
  expect(problem?.code).toBe(code);
  if (code !== undefined) expect(problem?.message).toMatch(message);
});

const pod = (status: Pod["status"], nodeName: string | undefined = "node-1"): Pod => ({
  metadata: { name: "chat-2" },
  spec: { containers: [], nodeName },
  status: { phase: "Pending", ...status },
});
const engine = (state: object, restartCount = 0) => ({ name: "engine", restartCount, state });

test.each<[what: string, pod: Pod, waits: boolean]>([
  [
    "no container is created",
    pod({ containerStatuses: [engine({ waiting: { reason: "ContainerCreating" } })] }),
    true,
  ],
  ["nothing is reported yet", pod({}), true],
  ["it has no node", { ...pod({}), spec: { containers: [] } }, false],
  [
    "its image is pulled",
    pod({ containerStatuses: [engine({ waiting: { reason: "ImagePullBackOff" } })] }),
    false,
  ],
  ["its init container runs", pod({ initContainerStatuses: [engine({ running: {} })] }), false],
  [
    "its init container has exited",
    pod({ initContainerStatuses: [engine({ terminated: { exitCode: 1 } })] }),
    false,
  ],
  ["its init container starts again", pod({ initContainerStatuses: [engine({ waiting: {} }, 1)] }), false],
])("%s: waits for volumes: %s", (_, one, waits) => {
  expect(isMounting(one)).toBe(waits);
  expect(isMounting({ ...one, metadata: { name: "p", deletionTimestamp: "2026" } })).toBe(false);
});
