/** InferenceService: a Model that is served under a cluster Service, on hosts or in pods. */
import { z } from "zod";
import { objectFields } from "../metadata.ts";
import { inferenceServiceSpecSchema } from "./spec.ts";
import { inferenceServiceStatusSchema } from "./status.ts";

export const inferenceServiceSchema = z.object({
  ...objectFields,
  spec: inferenceServiceSpecSchema.describe("Desired state of the service."),
  status: inferenceServiceStatusSchema
    .describe("Status of the service, written by the controller.")
    .optional(),
});

export type InferenceService = z.output<typeof inferenceServiceSchema>;

export { type InferenceServiceSpec, inferenceServiceSpecSchema } from "./spec.ts";
export type { InferenceServiceStatus, ServicePlacement } from "./status.ts";
