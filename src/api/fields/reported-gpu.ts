/** GPUs that a machine was found to have: of a Linux host, and of a node of the cluster. */
import { z } from "zod";

export const MAX_GPUS = 64;
const MAX_BYTES = 1024 ** 4;

const reportedGpuSchema = z.object({
  vendor: z.enum(["nvidia", "amd", "intel"]).describe("Its vendor."),
  name: z.string().min(1).max(256).describe("Its name, as the driver or udev has it."),
  memoryBytes: z
    .int()
    .min(1)
    .max(MAX_BYTES)
    .describe("Memory of one GPU; absent where it is not known, and where it shares the machine's.")
    .optional(),
  count: z.int().min(1).max(MAX_GPUS).describe("How many equal ones there are."),
  unified: z.boolean().describe("True: it computes in the machine's memory."),
});

export const reportedGpusSchema = z.array(reportedGpuSchema).max(MAX_GPUS).meta({
  description: "GPUs of a Linux machine whose driver is loaded.",
  "x-kubernetes-list-type": "atomic",
});

export type ReportedGpu = z.output<typeof reportedGpuSchema>;
