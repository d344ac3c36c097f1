/** Every key of the agent's configuration, with its default; flags and file are merged before they come here. */
import * as z from "zod";
import { parseQuantity } from "../../src/api/fields/quantity.ts";
import { unusableBecause } from "./address.ts";

const path = z
  .string()
  .min(1, "must not be empty")
  .refine((text) => !text.includes("\0"), "must not hold a zero byte");

const bytes = z.union([z.number(), z.string()]).transform((value, context) => {
  const parsed = parseQuantity(value);
  if (parsed !== undefined && parsed >= 0) return Math.floor(parsed);
  context.addIssue({ code: "custom", message: "must be a quantity such as 20Gi" });
  return z.NEVER;
});

const milliseconds = (most: number) => z.int().min(0).max(most);

const port = z.int().min(1).max(65_535);

const address = z.string().superRefine((text, context) => {
  const why = unusableBecause(text);
  if (why !== undefined)
    context.addIssue({ code: "custom", message: `is ${why}: an EndpointSlice may not hold it` });
});

const endpoint = z.url({ protocol: /^https?$/, error: "must be an http or https address" });

export const agentConfigSchema = z.strictObject({
  kubeconfig: path.optional(),
  context: z.string().min(1).optional(),
  hostName: z
    .string()
    .regex(
      /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/,
      "must be a DNS label: at most 63 of a-z, 0-9 and -, no - at an end",
    ),
  /** In order of preference; empty: the address of the route to the API server. */
  addresses: z.array(address).max(16).default([]),
  stateDir: path,
  platform: z.enum(["darwin", "linux"]),
  /** Create the Host object if it is not there. */
  register: z.boolean().default(false),
  /** End the engines with the agent: for demos, never for a service. */
  stopEngines: z.boolean().default(false),
  dryRun: z.boolean().default(false),
  portRange: z
    .tuple([port, port])
    .default([21_000, 21_999])
    .refine(([first, last]) => first <= last, "the first port must not be above the last"),
  /** Programs to try, in order, before PATH. */
  llamaServer: z.array(path).default([]),
  modelRoots: z.array(path.refine((text) => text.startsWith("/"), "must be an absolute path")).default([]),
  huggingFace: z
    .strictObject({
      endpoint: endpoint.default("https://huggingface.co"),
      token: z.string().min(1).optional(),
      tokenFile: path.optional(),
    })
    .prefault({}),
  sources: z
    .strictObject({
      allowPrivateAddresses: z.boolean().default(false),
      allowLoopback: z.boolean().default(false),
      allowedHosts: z.array(z.string().min(1)).optional(),
    })
    .prefault({}),
  disk: z.strictObject({ quota: bytes.optional(), reserve: bytes.default(5 * 1024 ** 3) }).prefault({}),
  memory: z.strictObject({ budget: bytes.optional() }).prefault({}),
  drain: z
    .strictObject({
      propagationMs: milliseconds(600_000).default(2_000),
      quietMs: milliseconds(60_000).default(250),
    })
    .prefault({}),
  /** Loopback port of /healthz, /readyz and /metrics; 0 takes a free one. */
  metricsPort: z.int().min(0).max(65_535).default(0),
  logLevel: z.enum(["trace", "debug", "info", "warn", "error", "silent"]).default("info"),
});

export type AgentConfig = Readonly<z.output<typeof agentConfigSchema>>;
/** What a file or flags may say; everything is optional there. */
export type AgentSettings = {
  readonly [Key in keyof z.input<typeof agentConfigSchema>]?:
    | z.input<typeof agentConfigSchema>[Key]
    | undefined;
};
