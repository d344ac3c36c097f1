/** Settings for reading remote sources, with their defaults. */
import { z } from "zod";
import type { InspectSettings } from "../../src/hub/inspect.ts";

const milliseconds = (description: string) =>
  z.coerce.number().int().min(100).max(3_600_000).describe(description);

export const modelConfigSchema = z.strictObject({
  hfEndpoint: z
    .url({ protocol: /^https?$/ })
    .default("https://huggingface.co")
    .describe("Where hf:// sources are resolved: Hugging Face, or a mirror with the same API."),
  allowLoopback: z
    .boolean()
    .default(false)
    .describe("Allow sources on the controller's own loopback, for a controller that runs beside an agent."),
  allowPrivate: z
    .boolean()
    .default(false)
    .describe(
      "Allow sources in any private network. Whoever may create a Model can then use the controller to probe them.",
    ),
  allowNetworks: z
    .string()
    .default("")
    .transform((text) => (text === "" ? [] : text.split(",")))
    .pipe(z.array(z.union([z.cidrv4(), z.cidrv6()], "must be CIDRs, for example 10.0.0.0/8")).max(64))
    .describe(
      "Private networks that sources may be in, for example the one of a mirror: CIDRs, separated by commas. The host of `hfEndpoint` is always allowed.",
    ),
  stallMs: milliseconds("Abort a request after this many ms without data.").default(15_000),
  lookMs: milliseconds("Limit for reading the header of one Model, in ms.").default(60_000),
  maxHeaderBytes: z.coerce
    .number()
    .int()
    .min(1024)
    .default(128 << 20)
    .describe("Maximum length of a GGUF header, in bytes."),
});

export type ModelConfig = Readonly<z.output<typeof modelConfigSchema>>;

const CONNECT_MS = 10_000;
const MAX_REDIRECTS = 10;

export function inspectSettings(config: ModelConfig): InspectSettings {
  const { allowLoopback, allowPrivate, allowNetworks, stallMs, lookMs, hfEndpoint, maxHeaderBytes } = config;
  const limits = { stallMs, connectMs: CONNECT_MS, maxRedirects: MAX_REDIRECTS };
  const rules = { allowLoopback, allowPrivate, allowedNetworks: allowNetworks, ...limits };
  return { hfEndpoint, maxHeaderBytes, inspectMs: lookMs, rules };
}
