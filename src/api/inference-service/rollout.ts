/** Placement, rollout and disruption of a service. */
import { z } from "zod";
import { labelSelectorSchema } from "../fields/kubernetes.ts";
import { hostName, int32 } from "../fields/shared.ts";
import { DRAIN_SECONDS_DEFAULT, DRAIN_SECONDS_MAX } from "../inference-replica.ts";

/** YAML 1.1, which kubectl and Helm read, parses an unquoted key `on` as a boolean. */
const MISREAD_ON = 'YAML reads an unquoted "on" as true: write "on": Auto, with the quotes';

const PLATFORMS = ["Hosts", "Pods"] as const;
export const RUNS_ON = [...PLATFORMS, "Auto"] as const;
/** Engines on hosts, pods on Linux nodes, or both. */
export type RunsOn = (typeof RUNS_ON)[number];

export const placementSchema = z
  .object({
    on: z
      .enum(RUNS_ON)
      .describe(
        'Platform that runs the replicas. Hosts: engines under an agent, on Macs and Linux machines. Pods: a Deployment on Linux nodes. Auto: both, behind one Service; replicas that do not fit on one platform run on the other. Defaults to Hosts if the accelerator of the Model is metal, else to Pods. After a change, old replicas are stopped once the new ones are Ready. In YAML, quote the key: "on": Auto.',
      )
      .optional(),
    prefer: z
      .enum(PLATFORMS)
      .describe(
        'Preferred platform with "on": Auto. A replica on the other platform is stopped once a replica on the preferred one replaces it. Defaults to Hosts.',
      )
      .optional(),
    mode: z
      .enum(["Manual", "Auto"])
      .describe(
        "Node selection for pods. Manual: the Kubernetes scheduler chooses according to the settings of the service. Auto: nodes with too little memory for the model are excluded, and the others are preferred by how well the model fits; nodeSelector and node affinity of the service take precedence. Defaults to Manual.",
      )
      .optional(),
    hosts: z
      .array(hostName("Name of a Host."))
      .max(256)
      .meta({
        description: "Names of candidate Hosts. If absent or empty, any Host is a candidate.",
        "x-kubernetes-list-type": "set",
      })
      .optional(),
    hostSelector: labelSelectorSchema.describe("Label selector for candidate Hosts.").optional(),
    spread: z
      .enum(["Preferred", "Required", "None"])
      .describe(
        "Distribution of replicas. Preferred: on different hosts if possible. Required: always on different hosts. None: hosts are filled one after another. Defaults to Preferred.",
      )
      .default("Preferred"),
    allowEviction: z
      .boolean()
      .describe(
        "If true, a service of higher priority may preempt this one when no host has enough memory. Defaults to true.",
      )
      .default(true),
  })
  .meta({ "x-refused-fields": { true: MISREAD_ON } });

/** A number of replicas up to 100, or a percentage of them, as in a Deployment. */
function intOrPercent(description: string) {
  const percent = z
    .string()
    .max(4)
    .regex(/^(100|[1-9]?[0-9])%$/);
  return z.union([int32(0, 100), percent]).meta({ description, "x-kubernetes-int-or-string": true });
}

export const rolloutSchema = z
  .object({
    maxUnavailable: intOrPercent(
      "Maximum number of unavailable replicas during a rollout, as a number or a percentage of spec.replicas, rounded down. With 0, an old replica is stopped only after a new one is Ready. Defaults to 1 on hosts; in pods to 0, or to 1 if maxSurge is 0.",
    ).optional(),
    maxSurge: intOrPercent(
      "Maximum number of replicas above spec.replicas during a rollout, as a number or a percentage of spec.replicas, rounded up. On hosts, used only if memory allows. Defaults to 1; in pods with GPUs to 0, or to 1 if maxUnavailable is 0.",
    ).optional(),
    drainSeconds: int32(0, DRAIN_SECONDS_MAX)
      .describe(
        "Maximum time in seconds to wait for requests in flight before an engine is stopped. Defaults to 30.",
      )
      .default(DRAIN_SECONDS_DEFAULT),
    revisionHistoryLimit: int32(0, 1000)
      .describe("Number of old revisions to keep for rollback. Defaults to 10.")
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        // Guarded, because the API server validates the default {} before it fills in the defaults inside.
        rule: "!has(self.maxUnavailable) || !has(self.maxSurge) || !(string(self.maxUnavailable) in ['0', '0%']) || !(string(self.maxSurge) in ['0', '0%'])",
        message: "rollout.maxUnavailable and rollout.maxSurge cannot both be 0: no replica could be replaced",
      },
    ],
  });

/** Named as in LLMKube. */
export const rolloutPolicySchema = z.object({
  waitForIdle: z
    .boolean()
    .describe(
      "If true, a rollout waits until the old pods have no requests in flight. A pod whose metrics cannot be read counts as busy.",
    )
    .optional(),
  idleTimeoutSeconds: int32(0, 86400)
    .describe("Maximum time in seconds to wait before the rollout continues. Defaults to 300.")
    .default(300),
  force: z.boolean().describe("If true, the rollout continues immediately.").optional(),
});

export const disruptionSchema = z.object({
  protectStartup: z
    .boolean()
    .describe("If true, no pod of the service may be evicted while a pod is loading. Defaults to true.")
    .default(true),
  protectAlways: z.boolean().describe("If true, no pod of the service may be evicted.").optional(),
});
