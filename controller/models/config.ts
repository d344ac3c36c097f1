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
    .describe(
      "URL of the Hugging Face Hub, or a mirror with the same API, at which hf:// sources are resolved.",
    ),
  ollamaRegistry: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe(
      "Registry that ollama:// sources without a host are read from. Default: Ollama's registry. Set `ollama.registry` of the agents to the same value.",
    ),
  allowLoopback: z
    .boolean()
    .default(false)
    .describe(
      "Allow sources on the controller's loopback addresses, for a controller on the same machine as an agent.",
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
    "Private networks that sources may be in, for example the network of a mirror: CIDRs, separated by commas. The hosts of `hfEndpoint` and `ollamaRegistry` are always allowed.",
  ),
  image: imageReference
    .optional()
    .describe("Metalbridge image for the Jobs that download weights to volumes. Set by the chart."),
  imagePullSecrets: commaList(z.string().regex(OBJECT_NAME, "must be names of Secrets")).describe(
    "Names of the Secrets for pulling that image, separated by commas. They must exist in the namespaces of Models.",
  ),
  cacheScope: z
    .enum(["Namespace", "Model"])
    .optional()
    .describe(
      "Scope of the volumes that hold weights for pods. Namespace: one claim per namespace, metalbridge-model-cache, which is kept when Models are deleted. Model: one claim per Model, deleted with the Model. Default: Namespace with access mode ReadWriteMany, otherwise Model.",
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
    .describe("StorageClass of new claims. Default: the cluster's default StorageClass."),
  cacheAccessMode: z
    .enum(["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"])
    .default("ReadWriteOnce")
    .describe(
      "Access mode of new claims. With ReadWriteMany, a Job downloads the weights, and pods on all nodes mount them. With other modes, all pods that mount the volume run on one node; a Job downloads the weights if the StorageClass binds at once and any node can mount the volume (ReadWriteOnce), otherwise the pods do.",
    ),
  cacheCaConfigMap: z
    .string()
    .regex(OBJECT_NAME, "must be the name of a ConfigMap")
    .optional()
    .describe(
      "ConfigMap in the namespaces of Models. Download Jobs additionally trust the certificate authorities (PEM) in its key ca.crt.",
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
      "Interval in seconds, plus up to 20 %, at which the sources of Models with refreshPolicy OnChange are checked. The interval is longer after failures and for sources that change at each check.",
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
