/** InferenceService: a model served under one cluster Service, on Macs or on Linux nodes. */
import { z } from "zod";
import { metadataSchema } from "../metadata.ts";
import { inferenceServiceSpecSchema } from "./spec.ts";
import { inferenceServiceStatusSchema } from "./status.ts";

export const inferenceServiceSchema = z.object({
  apiVersion: z.string().exactOptional(),
  kind: z.string().exactOptional(),
  metadata: metadataSchema,
  spec: inferenceServiceSpecSchema.describe("What is served, and how."),
  status: inferenceServiceStatusSchema.describe("Status of the service.").optional(),
});

export type InferenceService = z.output<typeof inferenceServiceSchema>;

export { type InferenceServiceSpec, inferenceServiceSpecSchema } from "./spec.ts";
export type { InferenceServiceStatus, ServicePlacement } from "./status.ts";
