/** HostJoinRequest: a machine that has the join token of a group asks to become a Host. Made by the machine, answered by the controller. */
import { z } from "zod";
import { hostName, shortText, timestamp } from "./fields/shared.ts";
import { metadataSchema } from "./metadata.ts";

const addressSchema = z
  .string()
  .min(2)
  .max(45)
  .meta({
    description: "An IP address.",
    "x-kubernetes-validations": [
      {
        rule: "isIP(self) && !ip(self).isLoopback() && !ip(self).isLinkLocalUnicast() && !ip(self).isUnspecified()",
        message: "spec.addresses: each must be an IP address that other machines can reach",
      },
    ],
  });

export const hostJoinRequestSchema = z.object({
  apiVersion: z.string().exactOptional(),
  kind: z.string().exactOptional(),
  metadata: metadataSchema,
  spec: z
    .object({
      hostName: hostName("Name of the Host that the machine is to be."),
      group: hostName("Group whose token the machine has."),
      addresses: z.array(addressSchema).min(1).max(4).meta({
        description: "Addresses that the machine serves on; they become spec.addresses of the Host.",
        "x-kubernetes-list-type": "atomic",
      }),
      machineId: shortText(128, "Stable id of the machine, in its own words.").optional(),
      machine: shortText(128, "What the machine is, in its own words.").optional(),
      approval: z
        .enum(["Approved", "Rejected"])
        .describe("An administrator's answer: `metalbridge host approve` and `host reject`.")
        .optional(),
      approvalNote: shortText(256, "Why it was rejected.").optional(),
    })
    .describe("What is asked for, and an administrator's answer."),
  status: z
    .object({
      phase: z.enum(["Pending", "Admitted", "Rejected"]).describe("Where the request is."),
      reason: z
        .string()
        .max(63)
        .regex(/^[A-Za-z0-9]*$/)
        .describe("Code of a rejection; see docs/errors.md.")
        .optional(),
      message: shortText(1024, "What is the case, then what to do.").optional(),
      decidedAt: timestamp("When it was admitted or rejected.").optional(),
      sealedToken: z
        .string()
        .max(8192)
        .regex(/^[A-Za-z0-9_-]*$/)
        .describe("Join token of the Host, encrypted for the key that names this object.")
        .optional(),
    })
    .describe("The controller's answer.")
    .optional(),
});

export type HostJoinRequest = z.output<typeof hostJoinRequestSchema>;
