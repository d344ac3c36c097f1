/** Every key of the agent's configuration, with its default. Parses the merged settings of flags, profile and file. */
import * as z from "zod";
import { parseQuantity } from "../../src/api/fields/quantity.ts";
import { isLoopback } from "../../src/http/loopback.ts";
import { engineConfigs } from "../engines/registry.ts";
import { addressProblem } from "./address.ts";
import { absolutePath, endpoint, path } from "./fields/places.ts";
import { PORT_RANGE_EXPECTED, type PortRange, parsePortRange } from "./port-range.ts";
import { remoteAccess } from "./remote-access.ts";

const bytes = z.union([z.number(), z.string()]).transform((value, context) => {
  const parsed = parseQuantity(value);
  if (parsed !== undefined && parsed >= 0) return Math.floor(parsed);
  context.addIssue({ code: "custom", message: "must be a quantity such as 20Gi" });
  return z.NEVER;
});

const milliseconds = (max: number) => z.int().min(0).max(max);

/** The default of llmfit itself. */
const DEFAULT_LLMFIT_PORT = 8787;

const port = z.int().min(1).max(65_535);

const portRange = z
  .union([z.string(), z.tuple([z.number(), z.number()])], { error: PORT_RANGE_EXPECTED })
  .transform((value, context): PortRange => {
    const parsed = parsePortRange(value);
    if (parsed !== undefined) return parsed;
    context.addIssue({ code: "custom", message: PORT_RANGE_EXPECTED });
    return z.NEVER;
  });

const address = (reason = "") =>
  z.string().superRefine((text, context) => {
    const problem = addressProblem(text);
    if (problem !== undefined) context.addIssue({ code: "custom", message: `is ${problem}${reason}` });
  });

const settingsSchema = z.strictObject({
  kubeconfig: path
    .describe(
      "Kubeconfig of the cluster. Absent: the file kubeconfig in the state folder, which `metalbridge join` writes, then the variable KUBECONFIG, then ~/.kube/config.",
    )
    .optional(),
  context: z.string().min(1).describe("Context of the kubeconfig. Absent: its current context.").optional(),
  hostName: z
    .string()
    .regex(
      /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/,
      "must be a DNS label: at most 63 of a-z, 0-9 and -, no - at an end",
    )
    .describe(
      "Name of this machine's Host object. Absent: the one that it joined as, else the machine's name as a DNS label.",
    ),
  addresses: z
    .array(address(": an EndpointSlice may not hold it"))
    .max(16)
    .describe(
      "Addresses that engines serve on, in order of preference; engines that run on one of them stay there. Empty: the address of the route to the API server, or another that the Host allows (add-a-host.md).",
    )
    .default([]),
  stateDir: path.describe(
    "State folder: models, engines and desired state. Absent: ~/Library/Application Support/metalbridge on macOS; on Linux /var/lib/metalbridge for root, else ~/.local/state/metalbridge.",
  ),
  // Not documented: for tests that replay another machine's tools.
  platform: z.enum(["darwin", "linux"]).meta({ hidden: true }),
  register: z
    .boolean()
    .describe(
      "Create the Host object if it does not exist, with the current address. Later addresses must be allowed in its spec.addresses; best add their CIDR beforehand.",
    )
    .default(false),
  stopEngines: z
    .boolean()
    .describe(
      "Drain and stop the engines when the agent stops. Without it they keep running, and the next agent adopts them.",
    )
    .default(false),
  dryRun: z.boolean().describe("Print the plan and exit.").default(false),
  portRange: portRange
    .describe("First and last port of the range for engines: 21000-21999 or [21000, 21999].")
    .prefault("21000-21999"),
  ...engineConfigs,
  modelRoots: z
    .array(absolutePath)
    .describe("Folders that file:// sources may be in. Empty: file:// is not allowed.")
    .default([]),
  reportInstalled: z
    .boolean()
    .describe(
      "Report in the Host's status which models other programs have on this machine: names and sizes, from the home folder of the agent's user, modelRoots and Ollama. Every other host can read them.",
    )
    .default(true),
  huggingFace: z
    .strictObject({
      endpoint: endpoint
        .describe("The hub, or a mirror of it. The variable HF_ENDPOINT sets it too.")
        .default("https://huggingface.co"),
      token: z
        .string()
        .min(1)
        .describe("Token for Models without a Secret. The variable HF_TOKEN sets it too.")
        .optional(),
      tokenFile: path.describe("File with the token; read once, at start.").optional(),
    })
    .prefault({}),
  sources: z
    .strictObject({
      credentialsFile: path
        .describe(
          "YAML file with credentials for Models without a Secret, by the keys that a Secret has (AWS_ACCESS_KEY_ID, …); read once, at start. Variables of the environment with these names are read too; the file overrides them.",
        )
        .optional(),
      credentials: z
        .record(z.string(), z.string())
        .describe("The same, in this configuration; it overrides both.")
        .optional(),
      allowPrivateAddresses: z
        .boolean()
        .describe("Allow sources in private networks, such as a mirror on the local network.")
        .default(true),
      allowLoopback: z
        .boolean()
        .describe(
          "Allow sources on this machine's loopback. Link-local and metadata addresses are never allowed.",
        )
        .default(false),
      allowedHosts: z
        .array(z.string().min(1))
        .describe("Remote hosts that models may be downloaded from. Absent: all.")
        .optional(),
      // Not documented: for tests with sources that fail.
      stallMs: milliseconds(3_600_000).min(100).default(30_000).meta({ hidden: true }),
      attempts: z.int().min(1).max(100).default(5).meta({ hidden: true }),
      maxDownloads: z
        .int()
        .min(1)
        .max(64)
        .describe(
          "Files that this host downloads at once; further downloads are queued. Half of them are for namespaces that download nothing else.",
        )
        .default(8),
      maxBytesPerSecond: bytes
        .describe(
          "Bandwidth for all downloads of this host together, in bytes per second: 50Mi is about 420 Mbit/s. At least 64Ki. Absent: no limit.",
        )
        .refine((rate) => rate >= 64 * 1024, "must be at least 64Ki")
        .optional(),
      connectionsPerFile: z
        .int()
        .min(1)
        .max(16)
        .describe(
          "Connections among which a download is shared that would take more than 10 s on one, where the server sends ranges. 1: never.",
        )
        .default(4),
    })
    .prefault({}),
  peers: z
    .strictObject({
      enabled: z
        .boolean()
        .describe(
          "Fetch weights from other hosts of the cluster before the source is asked, and give them what this host has.",
        )
        .default(true),
      port: port
        .describe("Port on the host's address on which other hosts of the cluster fetch weights.")
        .default(20_999),
      maxRate: bytes
        .describe("Most bytes per second that this host gives to all other hosts together.")
        .prefault("100Mi")
        .refine((rate) => rate >= 1024 ** 2, "must be at least 1Mi"),
    })
    .prefault({}),
  disk: z
    .strictObject({
      quota: bytes.describe("Maximum disk space for stored models. Absent: no limit.").optional(),
      reserve: bytes.describe("Free disk space that downloads must leave on the volume.").prefault("5Gi"),
      verifyDays: z
        .int()
        .min(0)
        .max(3_650)
        .describe(
          "Days after which a stored file is hashed again in the background, to find bit rot; 0: never.",
        )
        .default(30),
    })
    .prefault({}),
  memory: z
    .strictObject({
      budget: bytes
        .describe("Total memory that engines may claim; overrides what the machine reports.")
        .optional(),
      compute: z
        .strictObject({
          factor: z.number().min(0.1).max(10).describe("Factor on the estimate of compute buffers."),
          extraBytes: z
            .int()
            .min(0)
            .max(2 ** 40)
            .describe("Bytes added to each engine's compute buffers."),
        })
        .describe(
          "Output of `metalbridge calibrate` from a machine of this kind. Absent: the CPU table, or the unmeasured estimate for Metal.",
        )
        .optional(),
    })
    .prefault({}),
  drain: z
    .strictObject({
      quietMs: milliseconds(60_000)
        .describe("Time without requests before a draining engine is stopped.")
        .default(250),
    })
    .prefault({}),
  engineLogs: z
    .strictObject({
      maxSize: bytes
        .describe("Size above which the agent rotates an engine's log, in place; from 64Ki to 256Mi.")
        .prefault("16Mi")
        .refine((size) => size >= 64 * 1024 && size <= 256 * 1024 ** 2, "must be from 64Ki to 256Mi"),
      keep: z
        .int()
        .min(0)
        .max(100)
        .describe("Number of rotated logs to keep beside the current one.")
        .default(3),
    })
    .prefault({}),
  metricsPort: z
    .int()
    .min(0)
    .max(65_535)
    .describe("Loopback port of /healthz, /readyz and /metrics; 0 takes a free one.")
    .default(0),
  metricsAddress: address()
    .describe(
      "Additional address for /metrics, on metricsPort, for a Prometheus on another machine. Needs metricsTokenFile. Absent: loopback only.",
    )
    .optional(),
  metricsTokenFile: path
    .describe(
      "File with the bearer token required at metricsAddress; read at each request, so it can be rotated.",
    )
    .optional(),
  remoteAccess,
  llmfit: z
    .strictObject({
      enabled: z.boolean().describe("Answer llmfit's REST API about this machine.").default(false),
      address: z
        .union([z.ipv4(), z.ipv6()], { error: "must be an IP address" })
        .describe("Its address. Any but loopback needs llmfit.tokenFile.")
        .default("127.0.0.1"),
      port: z.int().min(0).max(65_535).describe("Its port; 0 takes a free one.").default(DEFAULT_LLMFIT_PORT),
      tokenFile: path
        .describe("File with the bearer token that it requires; read at each request, so it can be rotated.")
        .optional(),
      catalog: path
        .describe(
          "File with more models for its catalog, as --catalog of other verbs takes it; read at the first request. Absent: none.",
        )
        .optional(),
    })
    .refine(({ address, tokenFile }) => tokenFile !== undefined || isLoopback(address), {
      path: ["tokenFile"],
      message: "is required with an address that is not loopback: anyone could read what this machine has",
    })
    .prefault({}),
  logLevel: z
    .enum(["trace", "debug", "info", "warn", "error", "silent"])
    .describe("Minimum log level.")
    .default("info"),
  logFile: path
    .describe("File that the agent logs to and rotates. Absent: standard error, which it cannot rotate.")
    .optional(),
  logRotation: z
    .strictObject({
      maxSize: bytes
        .describe("Size at which the agent's log file is rotated; from 64Ki to 1Gi.")
        .prefault("10Mi")
        .refine((size) => size >= 64 * 1024 && size <= 1024 ** 3, "must be from 64Ki to 1Gi"),
      keep: z.int().min(0).max(100).describe("Number of rotated log files to keep.").default(5),
    })
    .prefault({}),
});

export const agentConfigSchema = settingsSchema
  .refine(
    ({ metricsAddress, metricsTokenFile }) => metricsAddress === undefined || metricsTokenFile !== undefined,
    {
      path: ["metricsTokenFile"],
      message:
        "is required with metricsAddress: without a token, anyone who reaches that address could read metrics",
    },
  )
  .refine(({ metricsAddress, metricsPort }) => metricsAddress === undefined || metricsPort !== 0, {
    path: ["metricsPort"],
    message: "must be chosen with metricsAddress: a free port is another one after each start",
  });

export type AgentConfig = Readonly<z.output<typeof agentConfigSchema>>;
/** The settings of a file or of flags, where every key is optional. */
export type AgentSettings = {
  readonly [Key in keyof z.input<typeof agentConfigSchema>]?:
    | z.input<typeof agentConfigSchema>[Key]
    | undefined;
};
