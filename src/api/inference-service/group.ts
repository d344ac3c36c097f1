/** InferenceService.spec.group: several pods that serve one copy of the model. */
import { z } from "zod";
import { GROUP_RUNTIMES } from "../fields/runtimes.ts";
import { int32, localReference, nonEmpty } from "../fields/shared.ts";

/** Maximum number of pods of a group. */
const GROUP_SIZE_MAX = 32;

const GROUP_RESTART_POLICIES = ["RecreateGroupOnPodRestart", "RecreateGroupAfterStart"] as const;

export const groupSchema = z.object({
  size: int32(2, GROUP_SIZE_MAX).describe(
    "Number of pods of a group, including its leader. spec.resources apply to each of them: with 8 GPUs per pod and size 2, a copy of the model uses 16 GPUs.",
  ),
  restartPolicy: z
    .enum(GROUP_RESTART_POLICIES)
    .describe(
      "RecreateGroupOnPodRestart: if a container restarts or a pod is deleted, all pods of the group are recreated. RecreateGroupAfterStart: the same, but not while a pod of the group is pending. Defaults to RecreateGroupOnPodRestart.",
    )
    .default("RecreateGroupOnPodRestart"),
  topologyKey: nonEmpty(317)
    .regex(/^([a-z0-9]([a-z0-9.-]*[a-z0-9])?\/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/)
    .describe(
      "Label of nodes, for example topology.kubernetes.io/zone or the label of a rack. All pods of a group run on nodes with the same value, and no other group runs on nodes with that value. If absent, the scheduler places each pod on its own.",
    )
    .optional(),
  sshSecretRef: localReference(
    "Secret of type kubernetes.io/ssh-auth with the key by which the leader starts the processes of its workers. Required with runtime tensorrt-llm, and used only there.",
    "Name of the Secret.",
  ).optional(),
});

const runtimes = GROUP_RUNTIMES.map((runtime) => `'${runtime}'`).join(", ");

/** Rules of InferenceService.spec for groups. */
export const groupRules = [
  {
    rule: `!has(self.group) || !has(self.runtime) || self.runtime in [${runtimes}]`,
    message: `spec.group needs a runtime that serves a model over several pods: ${GROUP_RUNTIMES.join(", ")}`,
  },
  {
    rule: "!has(self.group) || !has(self.placement.on) || self.placement.on == 'Pods'",
    message: "spec.group needs spec.placement.on Pods: hosts and Macs do not form groups",
  },
  {
    rule: "!has(self.group) || !has(self.placement.mode) || self.placement.mode == 'Manual'",
    message:
      "spec.group needs spec.placement.mode Manual: set spec.group.topologyKey to keep a group together",
  },
  {
    rule: "!has(self.group) || has(self.backendRuntime) || has(self.group.sshSecretRef) == (has(self.runtime) && self.runtime == 'tensorrt-llm')",
    message: "spec.group.sshSecretRef is needed with runtime tensorrt-llm, and only there",
  },
] as const;
