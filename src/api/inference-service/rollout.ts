/** Where replicas go, how a change reaches them, and who goes first. */
import { z } from "zod";
import { intOrPercent } from "../fields/int-or-percent.ts";
import { labelSelectorSchema } from "../fields/kubernetes.ts";
import { hostName } from "../fields/shared.ts";
import { DRAIN_SECONDS_DEFAULT, DRAIN_SECONDS_MAX } from "../inference-replica.ts";

/** YAML 1.1, which kubectl and Helm read, makes a boolean of a key `on` that has no quotes. */
const MISREAD_ON = 'YAML reads an unquoted "on" as true: write "on": Auto, with the quotes';

const SIDES = ["Hosts", "Pods"] as const;
const RUNS_ON = [...SIDES, "Auto"] as const;
/** Engines under the agents of hosts, pods on Linux nodes, or both. */
export type RunsOn = (typeof RUNS_ON)[number];

export const placementSchema = z
  .object({
    on: z
      .enum(RUNS_ON)
      .describe(
        'What runs the replicas. Hosts: engines under an agent, on Macs and on Linux machines. Pods: a Deployment on Linux nodes. Auto: both, behind one Service; what one side has no room for runs on the other. Absent: Hosts where the Model\'s accelerator is metal, else Pods. Changed while it serves: the old replicas go once the new ones are Ready. In YAML the key needs quotes, as in "on": Auto.',
      )
      .optional(),
    prefer: z
      .enum(SIDES)
      .describe(
        'With "on": Auto, the side that is filled first. A replica on the other side goes once one on this side serves in its place. Absent: Hosts.',
      )
      .optional(),
    mode: z
      .enum(["Manual", "Auto"])
      .describe(
        "In pods, who chooses among the nodes. Manual: the scheduler, by what the service says. Auto: nodes whose memory is known not to hold the model are kept out, and the others are preferred by how well it fits them; a nodeSelector or node affinity of the service wins. Absent: Manual.",
      )
      .optional(),
    hosts: z
      .array(hostName("Name of a Host."))
      .max(256)
      .meta({
        description: "Hosts that may be chosen. Absent or empty: any.",
        "x-kubernetes-list-type": "set",
      })
      .optional(),
    hostSelector: labelSelectorSchema.describe("Labels that a Host must have to be a candidate.").optional(),
    spread: z
      .enum(["Preferred", "Required", "None"])
      .describe(
        "Preferred: replicas go to different hosts if possible. Required: always to different hosts. None: hosts are filled one after another.",
      )
      .default("Preferred"),
    allowEviction: z
      .boolean()
      .describe("True: a service of higher priority may preempt this one when no host has room.")
      .default(true),
  })
  .meta({ "x-refused-fields": { true: MISREAD_ON } });

export const rolloutSchema = z
  .object({
    maxUnavailable: intOrPercent(
      "Replicas that may be missing during a change, as a number or a percentage of spec.replicas, rounded down. With 0 an old replica goes only after a new one is Ready. Absent: 1 on hosts; in pods 0, or 1 where maxSurge is 0.",
    ).optional(),
    maxSurge: intOrPercent(
      "Replicas beyond the wanted number during a change, as a number or a percentage of spec.replicas, rounded up. On hosts used only where memory allows. Absent: 1; in pods with GPUs 0, or 1 where maxUnavailable is 0.",
    ).optional(),
    drainSeconds: z
      .int32()
      .min(0)
      .max(DRAIN_SECONDS_MAX)
      .describe("Drain timeout: maximum seconds to wait for requests in flight before an engine is stopped.")
      .default(DRAIN_SECONDS_DEFAULT),
    revisionHistoryLimit: z
      .int32()
      .min(0)
      .max(1000)
      .describe("Number of old revisions kept for rollback. Absent: 10.")
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        // Guarded, because the API server checks the default {} before it fills in what is inside.
        rule: "!has(self.maxUnavailable) || !has(self.maxSurge) || !(string(self.maxUnavailable) in ['0', '0%']) || !(string(self.maxSurge) in ['0', '0%'])",
        message: "rollout.maxUnavailable and rollout.maxSurge cannot both be 0: nothing could ever change",
      },
    ],
  });

/** LLMKube's name for how a Linux rollout waits for idle pods. */
export const rolloutPolicySchema = z.object({
  waitForIdle: z
    .boolean()
    .describe(
      "True: a change of the pods waits until the old ones have no request in flight. A pod whose metrics cannot be read counts as busy.",
    )
    .optional(),
  idleTimeoutSeconds: z
    .int32()
    .min(0)
    .max(86400)
    .describe("Timeout in seconds, after which the rollout continues anyway.")
    .default(300),
  force: z.boolean().describe("True: continue immediately, without waiting.").optional(),
});

export const disruptionSchema = z.object({
  protectStartup: z
    .boolean()
    .describe("True: while a pod is loading, no pod of the service may be evicted.")
    .default(true),
  protectAlways: z.boolean().describe("True: all pods of the service are protected.").optional(),
});
