/** Settings of the looks at remote sources, with their defaults. */
import { z } from "zod";
import type { RemoteConfig } from "./remote/exchange.ts";

const milliseconds = (description: string) =>
  z.coerce.number().int().min(100).max(3_600_000).describe(description);

export const modelConfigSchema = z.strictObject({
  hfEndpoint: z
    .url({ protocol: /^https?$/ })
    .default("https://huggingface.co")
    .describe("Where hf:// sources are looked up: Hugging Face, or a mirror with the same API."),
  allowLoopback: z
    .boolean()
    .default(false)
    .describe("Whether sources may lead to the controller's own loopback: where it runs beside an agent."),
  allowPrivate: z
    .boolean()
    .default(true)
    .describe("Whether sources may lead to private networks, as `sources.allowPrivateAddresses` of agents."),
  stallMs: milliseconds("Without a byte for so long a server counts as stalled.").default(15_000),
  lookMs: milliseconds("Reading a header may take so long in all.").default(60_000),
  maxHeaderBytes: z.coerce
    .number()
    .int()
    .min(1024)
    .default(128 << 20)
    .describe("A header may be so long."),
});

export type ModelConfigInput = z.input<typeof modelConfigSchema>;

/** The config with defaults filled in; throws for unknown keys and bad values. */
export function remoteConfig(input: ModelConfigInput = {}): RemoteConfig {
  const { allowLoopback, allowPrivate, ...rest } = modelConfigSchema.parse(input);
  return { ...rest, addresses: { allowLoopback, allowPrivate } };
}
