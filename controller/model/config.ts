/** Settings for reading remote sources, with their defaults. */
import { z } from "zod";
import { parseQuantity } from "../../src/api/fields/quantity.ts";
import type { InspectSettings } from "../../src/hub/inspect/inspect.ts";

const OBJECT_NAME = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;
const imageReference = z
  .string()
  .min(1)
  .max(1024)
  .regex(/^[^\s]+$/, "must be an image reference");

const commaList = <T extends z.ZodType<unknown, string>>(entry: T) =>
  z
    .string()
    .default("")
    .transform((text) => (text === "" ? [] : text.split(",")))
    .pipe(z.array(entry).max(64));

/** Reading a source fails after `stallMs` without data, or after `lookMs` without a complete header. */
const milliseconds = z.coerce.number().int().min(100).max(3_600_000).meta({ hidden: true });

export const modelConfigSchema = z.strictObject({
  hfEndpoint: z
    .url({ protocol: /^https?$/ })
    .default("https://huggingface.co")
    .describe("Where hf:// sources are resolved: Hugging Face, or a mirror with the same API."),
  ollamaRegistry: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe(
      "Registry that ollama:// sources without a host are read from. Absent: Ollama's own. Give the agents the same with their `ollama.registry`.",
    ),
  allowLoopback: z
    .boolean()
    .default(false)
    .describe(
      "Allow sources on the controller's own loopback, for a controller on the same machine as an agent.",
    ),
  allowPrivate: z
    .boolean()
    .default(false)
    .describe(
      "Allow sources in any private network. Anyone who can create a Model can then use the controller to probe them.",
    ),
  allowNetworks: commaList(
    z.union([z.cidrv4(), z.cidrv6()], "must be CIDRs, for example 10.0.0.0/8"),
  ).describe(
    "Private networks that sources may be in, for example the one of a mirror: CIDRs, separated by commas. The hosts of `hfEndpoint` and `ollamaRegistry` are always allowed.",
  ),
  image: imageReference
    .optional()
    .describe(
      "Image of Metalbridge itself, for the Jobs that download weights to volumes. The chart sets it.",
    ),
  imagePullSecrets: commaList(z.string().regex(OBJECT_NAME, "must be names of Secrets")).describe(
    "Secrets for pulling that image, in the namespaces of Models: names, separated by commas.",
  ),
  cacheScope: z
    .enum(["Namespace", "Model"])
    .optional()
    .describe(
      "Volumes for the weights of pods. Namespace: one claim, metalbridge-model-cache, which stays when its Models are deleted. Model: one claim for each Model, deleted with it. Absent: Namespace with access mode ReadWriteMany, else Model.",
    ),
  cacheSize: z
    .string()
    .refine((text) => (parseQuantity(text) ?? 0) > 0, "must be a quantity, for example 100Gi")
    .default("100Gi")
    .describe(
      "Size of a new claim for a namespace. A claim for one Model has the size of its weights, or this size if the source does not state it.",
    ),
  cacheStorageClass: z
    .string()
    .regex(OBJECT_NAME, "must be the name of a StorageClass")
    .optional()
    .describe("Its StorageClass. Absent: the cluster's default."),
  cacheAccessMode: z
    .enum(["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"])
    .default("ReadWriteOnce")
    .describe(
      "Its access mode. ReadWriteMany: a Job downloads the weights, and pods on all nodes mount them. Else pods download them to the volume, and all pods that mount it run on one node.",
    ),
  cacheCaConfigMap: z
    .string()
    .regex(OBJECT_NAME, "must be the name of a ConfigMap")
    .optional()
    .describe(
      "ConfigMap in the namespaces of Models whose key ca.crt holds the authorities (PEM) that download Jobs trust too.",
    ),
  // Undocumented, for tests with sources that do not answer.
  stallMs: milliseconds.default(15_000),
  lookMs: milliseconds.default(60_000),
  sourceCheckSeconds: z.coerce
    .number()
    .int()
    .min(1)
    .max(604_800)
    .default(600)
    .describe(
      "Check the source of a Model with refreshPolicy OnChange this often, in seconds, up to 20 % later. Less often after failures and for sources that change at each check.",
    ),
});

export type ModelConfig = Readonly<z.output<typeof modelConfigSchema>>;

const CONNECT_MS = 10_000;
const MAX_HEADER_BYTES = 128 << 20;
const MAX_REDIRECTS = 10;

export function inspectSettings(config: ModelConfig): InspectSettings {
  const { allowLoopback, allowPrivate, allowNetworks, stallMs, lookMs, hfEndpoint, ollamaRegistry } = config;
  const limits = { stallMs, connectMs: CONNECT_MS, maxRedirects: MAX_REDIRECTS };
  const rules = { allowLoopback, allowPrivate, allowedNetworks: allowNetworks, ...limits };
  return { hfEndpoint, ollamaRegistry, maxHeaderBytes: MAX_HEADER_BYTES, inspectMs: lookMs, rules };
}
