/** GPUs that were detected on a Linux host or on a cluster node. */
import { z } from "zod";
import { nonEmpty } from "./shared.ts";

export const MAX_GPUS = 64;
const MAX_BYTES = 1024 ** 4;

const reportedGpuSchema = z.object({
  vendor: z.enum(["nvidia", "amd", "intel"]).describe("Vendor of the GPU."),
  name: nonEmpty(256).describe("Name of the GPU, as reported by the driver or by udev."),
  memoryBytes: z
    .int()
    .min(1)
    .max(MAX_BYTES)
    .describe(
      "Memory of one GPU in bytes. Absent if it is unknown, or if the GPU uses the memory of the machine.",
    )
    .optional(),
  arch: z
    .string()
    .max(12)
    .regex(/^[a-z][a-z0-9_-]*$/)
    .describe("Architecture of the GPU, for example sm_89 or gfx942. Absent if it is unknown.")
    .optional(),
  count: z.int().min(1).max(MAX_GPUS).describe("Number of identical GPUs."),
  unified: z.boolean().describe("True if the GPU uses the memory of the machine."),
});

export const reportedGpusSchema = z.array(reportedGpuSchema).max(MAX_GPUS).meta({
  description: "GPUs of a Linux machine whose driver is loaded.",
  "x-kubernetes-list-type": "atomic",
});

export type ReportedGpu = z.output<typeof reportedGpuSchema>;
