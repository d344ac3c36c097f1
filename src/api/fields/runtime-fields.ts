/** Fields of services that name a runtime, or that apply to a single engine. */
import { z } from "zod";
import { RUNTIMES } from "./runtimes.ts";
import { nonEmpty, objectName } from "./shared.ts";

export const runtimeSchema = z.enum(RUNTIMES);

/** Settings of a single engine. */
export const singleEngineFields = {
  turboQuantBits: z
    .literal([3, 6, 8])
    .describe(
      "Number of bits per element of oMLX's KV cache: 3, 6 or 8. If absent, the cache is not quantized.",
    )
    .optional(),
  pagedSSDCacheDir: nonEmpty(1024).describe("Folder on the host to which oMLX pages KV blocks.").optional(),
  hotCacheMaxSize: nonEmpty(64).describe("Maximum memory for KV blocks of oMLX, for example 8GB.").optional(),
  pagedSSDCacheMaxSize: nonEmpty(64)
    .describe("Maximum disk space of oMLX's paged cache, for example 100GB.")
    .optional(),
} as const;

/** spec.backendRuntime of a service. */
export const backendReferenceSchema = z.object({
  name: objectName("Name of the BackendRuntime."),
  config: nonEmpty(63)
    .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/)
    .describe(
      "Name of one of its recommendedConfigs. Defaults to speculative-decoding with a draft model, else to default, if the runtime has them.",
    )
    .optional(),
  version: nonEmpty(128)
    .regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]*$/)
    .describe("Tag of the image, instead of the version of the runtime.")
    .optional(),
});
