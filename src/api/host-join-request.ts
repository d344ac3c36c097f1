/**
 * HostJoinRequest: a machine with the join token of a group requests to become a Host. The machine creates the object, and
 * the controller writes the decision to its status.
 */
import { z } from "zod";
import { hostName, reachableAddress, shortText, timestamp } from "./fields/shared.ts";
import { objectFields } from "./metadata.ts";

export const hostJoinRequestSchema = z.object({
  ...objectFields,
  spec: z
    .object({
      hostName: hostName("Requested name of the Host."),
      group: hostName("Name of the group whose token the machine has."),
      addresses: z.array(reachableAddress("spec.addresses")).min(1).max(4).meta({
        description: "IP addresses that the machine serves on. They become spec.addresses of the Host.",
        "x-kubernetes-list-type": "atomic",
      }),
      machineId: shortText(128, "Stable ID of the machine, as it reports it.").optional(),
      machine: shortText(128, "Description of the machine, as it reports it.").optional(),
      approval: z
        .enum(["Approved", "Rejected"])
        .describe("Decision of an administrator, set by `metalbridge host approve` and `host reject`.")
        .optional(),
      approvalNote: shortText(256, "Reason for the decision.").optional(),
    })
    .describe("Request of the machine, and decision of an administrator."),
  status: z
    .object({
      phase: z.enum(["Pending", "Admitted", "Rejected"]).describe("Phase of the request."),
      reason: z
        .string()
        .max(63)
        .regex(/^[A-Za-z0-9]*$/)
        .describe("Reason code of a refusal; see docs/errors.md.")
        .optional(),
      message: shortText(
        1024,
        "Human-readable description of the current state and of what to do about it.",
      ).optional(),
      decidedAt: timestamp("Time at which the request was admitted or rejected.").optional(),
      sealedToken: z
        .string()
        .max(8192)
        .regex(/^[A-Za-z0-9_-]*$/)
        .describe("Join token of the Host, encrypted with the public key that names this object.")
        .optional(),
    })
    .describe("Status of the request, written by the controller.")
    .optional(),
});

export type HostJoinRequest = z.output<typeof hostJoinRequestSchema>;
