/** Memory in the status of a Host. */
import { z } from "zod";
import { shortText } from "./shared.ts";

const text = (description: string) => shortText(128, description).optional();
const number = (description: string) => z.int().min(0).describe(description).optional();

export const hostMemorySchema = z.object({
  totalBytes: number("Installed memory."),
  availableBytes: number(
    "Memory that could be given to programs now; rounded, so that noise is not written.",
  ),
  wiredBytes: number("Memory that cannot be paged out; rounded."),
  gpuBudgetBytes: number("What engines may use together, before systemReserve is subtracted."),
  compute: z
    .object({
      factor: z.number().min(0.1).max(10).describe("Factor on the laid-out size of compute buffers."),
      extraBytes: z
        .int()
        .min(0)
        .max(2 ** 40)
        .describe("Bytes added to the compute buffers of each model that an engine loads."),
    })
    .describe(
      "Measured size of llama-server's compute buffers on this host (memory.compute of its agent). The scheduler and the agent calculate claims here with it. Absent: the estimate.",
    )
    .optional(),
  claimedBytes: number("Sum of the claims of all replicas that are admitted here."),
  leftBytes: number(
    "What new claims may take: the budget (spec.memory.gpuBudget, else gpuBudgetBytes), less systemReserve, less claimedBytes. Absent while the budget is not known.",
  ),
  total: text("Installed memory for people, for example 128 GiB."),
  claimed: text("Claimed memory for people, for example 37.2 GiB."),
  left: text("What is left for new claims, for people, for example 30.1 GiB of 96 GiB."),
  pressure: z
    .enum(["Normal", "Warning", "Critical", "Unknown"])
    .describe("Memory pressure level, as the agent's governor sees it.")
    .optional(),
});
