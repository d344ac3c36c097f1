/** Host.status.memory. */
import { z } from "zod";
import { shortText } from "./shared.ts";

const text = (description: string) => shortText(128, description).optional();
const number = (description: string) => z.int().min(0).describe(description).optional();

export const hostMemorySchema = z.object({
  totalBytes: number("Installed memory, in bytes."),
  availableBytes: number("Memory that is currently available to programs in bytes, rounded."),
  wiredBytes: number("Memory that cannot be paged out in bytes, rounded."),
  gpuBudgetBytes: number("Total memory that engines may use in bytes, before systemReserve is subtracted."),
  compute: z
    .object({
      factor: z
        .number()
        .min(0.1)
        .max(10)
        .describe("Factor that is applied to the estimated size of compute buffers."),
      extraBytes: z
        .int()
        .min(0)
        .max(2 ** 40)
        .describe("Number of bytes added to the compute buffers of each model that an engine loads."),
    })
    .describe(
      "Measured coefficients for llama-server's compute buffers on this host (memory.compute of its agent). Memory claims on this host are calculated with them. If absent, the built-in estimate is used.",
    )
    .optional(),
  claimedBytes: number("Sum of the memory claims of all replicas admitted on this host, in bytes."),
  leftBytes: number(
    "Memory left for new claims in bytes: the budget (spec.memory.gpuBudget, else gpuBudgetBytes) minus systemReserve and claimedBytes. Absent while the budget is unknown.",
  ),
  total: text("Installed memory in human-readable form, for example 128 GiB."),
  claimed: text("Claimed memory in human-readable form, for example 37.2 GiB."),
  left: text("Memory left for new claims in human-readable form, for example 30.1 GiB of 96 GiB."),
  pressure: z
    .enum(["Normal", "Warning", "Critical", "Unknown"])
    .describe("Memory pressure level.")
    .optional(),
});
