/** Fields of services that name a runtime, or that only one engine has. */
import { z } from "zod";
import { RUNTIMES } from "./runtimes.ts";

export const runtimeSchema = z.enum(RUNTIMES);

/** Settings that a single engine has. */
export const singleEngineFields = {
  turboQuantBits: z
    .literal([3, 6, 8])
    .describe("Bits per element of oMLX's quantized KV cache: 3, 6 or 8. Absent: not quantized.")
    .optional(),
  pagedSSDCacheDir: z
    .string()
    .min(1)
    .max(1024)
    .describe("Folder on the host in which oMLX pages KV blocks to disk.")
    .optional(),
  hotCacheMaxSize: z
    .string()
    .min(1)
    .max(64)
    .describe("Maximum memory for oMLX's KV blocks, for example 8GB.")
    .optional(),
  pagedSSDCacheMaxSize: z
    .string()
    .min(1)
    .max(64)
    .describe("Maximum disk space of oMLX's paged cache, for example 100GB.")
    .optional(),
} as const;
