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

const settingsSchema = z.strictObject({
  kubeconfig: path
    .describe("How to reach the cluster. Absent: the variable KUBECONFIG, then ~/.kube/config.")
    .optional(),
  context: z.string().min(1).describe("Context of that file. Absent: its current one.").optional(),
  hostName: z
    .string()
    .regex(
      /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/,
      "must be a DNS label: at most 63 of a-z, 0-9 and -, no - at an end",
    )
    .describe("Name of this machine's Host object. Absent: the machine's name, as a DNS label."),
  addresses: z
    .array(address)
    .max(16)
    .describe(
      "Addresses that engines serve on, in order of preference; engines that run on one of them stay there. Empty: that of the route to the API server, or another one that the Host allows (add-a-host.md).",
    )
    .default([]),
  stateDir: path.describe(
    "Where models, engines and desired state live. Absent: ~/Library/Application Support/metalbridge on macOS; on Linux /var/lib/metalbridge for root, else ~/.local/state/metalbridge.",
  ),
  platform: z.enum(["darwin", "linux"]).describe("How this machine is read. Absent: what it is."),
  register: z
    .boolean()
    .describe(
      "Create the Host object if it is not there, with the address of that moment. A later one has to be allowed in its spec.addresses, as a CIDR best before it comes.",
    )
    .default(false),
  stopEngines: z
    .boolean()
    .describe(
      "Drain and end the engines when the agent is told to end. Without it they run on, and the next start adopts them.",
    )
    .default(false),
  dryRun: z.boolean().describe("Print what would be done, and stop.").default(false),
  portRange: z
    .tuple([port, port])
    .describe("First and last port that engines may get.")
    .default([21_000, 21_999])
    .refine(([first, last]) => first <= last, "the first port must not be above the last"),
  llamaServer: z
    .array(path)
    .describe("llama-server programs to try, in order, before those on PATH.")
    .default([]),
  modelRoots: z
    .array(path.refine((text) => text.startsWith("/"), "must be an absolute path"))
    .describe("Folders in which file:// sources may lie. Empty: none may.")
    .default([]),
  huggingFace: z
    .strictObject({
      endpoint: endpoint
        .describe("The hub, or a mirror of it. The variable HF_ENDPOINT sets it too.")
        .default("https://huggingface.co"),
      token: z
        .string()
        .min(1)
        .describe("Sent where a Model names no Secret. The variable HF_TOKEN sets it too.")
        .optional(),
      tokenFile: path.describe("File with that token; read once, at start.").optional(),
    })
    .prefault({}),
  sources: z
    .strictObject({
      allowPrivateAddresses: z
        .boolean()
        .describe(
          "Whether models may come from addresses of private networks, where the mirror of a farm usually is.",
        )
        .default(true),
      allowLoopback: z
        .boolean()
        .describe(
          "Whether models may come from this machine's loopback. Link-local and metadata addresses never are.",
        )
        .default(false),
      allowedHosts: z
        .array(z.string().min(1))
        .describe("The only remote hosts that models may come from. Absent: every one.")
        .optional(),
      stallMs: milliseconds(3_600_000)
        .min(100)
        .describe("Without a byte for so long a download counts as stalled; it is resumed.")
        .default(30_000),
      attempts: z
        .int()
        .min(1)
        .max(100)
        .describe(
          "Failures in a row, without a new byte between them, after which a download is given up for a while.",
        )
        .default(5),
    })
    .prefault({}),
  disk: z
    .strictObject({
      quota: bytes.describe("Most space for stored models. Absent: no limit.").optional(),
      reserve: bytes.describe("Free space that downloads leave on the volume.").prefault("5Gi"),
    })
    .prefault({}),
  memory: z
    .strictObject({
      budget: bytes
        .describe("Memory that engines may claim together, in place of what the machine reports.")
        .optional(),
      compute: z
        .strictObject({
          factor: z.number().min(0.1).max(10).describe("Compute buffers, in parts of the estimate."),
          extraBytes: z.int().min(0).describe("Bytes added to each engine's compute buffers."),
        })
        .describe(
          "What `metalbridge calibrate` measured on a machine like this one. Absent: as on the CPU, or the unmeasured guess for Metal.",
        )
        .optional(),
    })
    .prefault({}),
  drain: z
    .strictObject({
      propagationMs: milliseconds(600_000)
        .describe("Time for kube-proxy to follow a withdrawn endpoint.")
        .default(2_000),
      quietMs: milliseconds(60_000)
        .describe("How long an engine must be without requests before it is stopped.")
        .default(250),
    })
    .prefault({}),
  engineLogs: z
    .strictObject({
      maxSize: bytes
        .describe("Size above which the agent rotates an engine's log, in place; from 64Ki to 256Mi.")
        .prefault("16Mi")
        .refine((size) => size >= 64 * 1024 && size <= 256 * 1024 ** 2, "must be from 64Ki to 256Mi"),
      keep: z.int().min(0).max(100).describe("How many rotated logs stay beside the newest.").default(3),
    })
    .prefault({}),
  metricsPort: z
    .int()
    .min(0)
    .max(65_535)
    .describe("Loopback port of /healthz, /readyz and /metrics; 0 takes a free one.")
    .default(0),
  metricsAddress: z
    .string()
    .superRefine((text, context) => {
      const why = unusableBecause(text);
      if (why !== undefined) context.addIssue({ code: "custom", message: `is ${why}` });
    })
    .describe(
      "Address of this machine where /metrics listens too, on metricsPort, for a Prometheus elsewhere. Needs metricsTokenFile. Absent: loopback only.",
    )
    .optional(),
  metricsTokenFile: path
    .describe(
      "File with the bearer token that whoever asks at metricsAddress must send; read at each request, so that it can be changed.",
    )
    .optional(),
  logLevel: z
    .enum(["trace", "debug", "info", "warn", "error", "silent"])
    .describe("The least severe log line that is written.")
    .default("info"),
});

export const agentConfigSchema = settingsSchema
  .refine(
    ({ metricsAddress, metricsTokenFile }) => metricsAddress === undefined || metricsTokenFile !== undefined,
    {
      path: ["metricsTokenFile"],
      message: "is needed with metricsAddress: anybody who reaches that address could ask otherwise",
    },
  )
  .refine(({ metricsAddress, metricsPort }) => metricsAddress === undefined || metricsPort !== 0, {
    path: ["metricsPort"],
    message: "must be chosen with metricsAddress: a free port is another one after each start",
  });

export type AgentConfig = Readonly<z.output<typeof agentConfigSchema>>;
/** What a file or flags may say; everything is optional there. */
export type AgentSettings = {
  readonly [Key in keyof z.input<typeof agentConfigSchema>]?:
    | z.input<typeof agentConfigSchema>[Key]
    | undefined;
};
