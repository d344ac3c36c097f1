/** InferenceService.spec.idle and status.idle: replicas that are unloaded while they are not used. */
import { z } from "zod";
import { hostName, int32, nonEmpty, timestamp } from "../fields/shared.ts";

const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"] as const;
export type Weekday = (typeof DAYS)[number];

const keepWarmSchema = z
  .object({
    days: z
      .array(z.enum(DAYS))
      .min(1)
      .max(7)
      .meta({
        description: "Days on which the window starts. If absent, it starts every day.",
        "x-kubernetes-list-type": "set",
      })
      .optional(),
    start: z
      .string()
      .max(5)
      .regex(/^([01][0-9]|2[0-3]):[0-5][0-9]$/)
      .describe("Start of the window as a time of day, from 00:00 to 23:59."),
    end: z
      .string()
      .max(5)
      .regex(/^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$/)
      .describe(
        "End of the window as a time of day, from 00:01 to 24:00. If it is before start, the window ends on the next day.",
      ),
    timeZone: nonEmpty(64)
      .regex(/^(UTC|[A-Za-z]+(\/[A-Za-z0-9_+-]+)+)$/)
      .meta({
        description: "Time zone of start and end, for example Europe/Berlin. Defaults to UTC.",
        "x-kubernetes-validations": [
          {
            // An unknown time zone is an error of the expression, which the API server reports with its name.
            rule: "timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0",
            message:
              "idle.keepWarm.timeZone must be the name of an IANA time zone, for example Europe/Berlin",
          },
        ],
      })
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "self.start != self.end",
        message: "idle.keepWarm: start and end must differ; a whole day is from 00:00 to 24:00",
      },
    ],
  });

export type KeepWarmWindow = z.output<typeof keepWarmSchema>;

export const idleSchema = z.object({
  afterMinutes: int32(1, 10_080).describe(
    "Time in minutes without requests after which all replicas are unloaded. Their weights stay on disk.",
  ),
  keepWarm: z
    .array(keepWarmSchema)
    .max(16)
    .meta({
      description:
        "Windows in which the replicas stay loaded without requests. The start of a window loads them.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
  minimumResidencySeconds: int32(0, 86_400)
    .describe(
      "Minimum time in seconds that replicas stay loaded once they are Ready. After it, another service that needs their memory may unload them as soon as they have no requests, before afterMinutes. It is also the turn of a service that always has requests, when requests wait for another idle service. Defaults to 120.",
    )
    .default(120),
});

export type IdleSettings = z.output<typeof idleSchema>;

const IDLE_STATES = ["Awake", "Idle", "Waking"] as const;

export const idleStatusSchema = z.object({
  state: z
    .enum(IDLE_STATES)
    .describe(
      "Awake: the replicas stay loaded. Idle: they are unloaded until the next request. Waking: a request has arrived, and the replicas start.",
    ),
  since: timestamp("Time at which the service entered this state."),
  lastRequestTime: timestamp(
    "Time of the last known request, to the minute. Absent if the controller has not seen one yet.",
  ).optional(),
  observedDemand: z
    .string()
    .max(64)
    .describe(
      "renewTime of the service's demand Lease that this state takes into account. An idle service whose Lease has another one is woken.",
    )
    .optional(),
  hosts: z
    .array(hostName("Name of a Host."))
    .max(100)
    .meta({
      description: "Hosts from which the replicas were unloaded. They are preferred when the service wakes.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
});

export type IdleStatus = z.output<typeof idleStatusSchema>;

/** Rules of InferenceService.spec for idle services. */
export const idleRules = [
  {
    rule: "!has(self.idle) || !has(self.autoscaling) || self.autoscaling.minReplicas > 0",
    message:
      "spec.idle and spec.autoscaling.minReplicas 0 both unload idle replicas: set minReplicas to 1, and spec.idle removes the autoscaler while the service is idle; or remove spec.idle",
  },
] as const;
