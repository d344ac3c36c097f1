/** Every key of the agent's configuration, with its default. Parses the merged settings of flags, profile and file. */
import * as z from "zod";
import { REMOTE_PORT } from "../../src/api/access/remote.ts";
import { parseQuantity } from "../../src/api/fields/quantity.ts";
import { isLoopback } from "../../src/http/loopback.ts";
import { absolutePath, endpoint, path } from "../engines/driver/config-fields.ts";
import { backendsConfig } from "../engines/generic/backends.ts";
import { engineConfigs } from "../engines/registry.ts";
import { addressProblem } from "../host/address.ts";

/** For users of the cluster who have no login on this host. */
const remoteAccess = z
  .strictObject({
    logs: z
      .boolean()
      .describe(
        "Allow users who can create tokens of the ServiceAccount metalbridge-logs in a replica's namespace to read its engine's log, which can contain prompts and answers (operate.md).",
      )
      .default(false),
    doctor: z
      .boolean()
      .describe(
        "Allow users who can create tokens of the ServiceAccount metalbridge-system/metalbridge-doctor to run `metalbridge doctor` on this host, as the agent's account (doctor.md).",
      )
      .default(false),
    port: z
      .int()
      .min(1)
      .max(65_535)
      .describe(
        "Port for remote access on the host's address. It is open only if logs or doctor is enabled. The controller's tunnel connects to port 20998 only; with another port, users need --direct.",
      )
      .default(REMOTE_PORT),
  })
  .prefault({});

export type PortRange = readonly [first: number, last: number];

export const PORT_RANGE_EXPECTED =
  "must be the first and the last port for engines, such as 21000-21999 or [21000, 21999]: each from 1 to 65535, the first not above the last";

const PORT_RANGE = /^\s*(?:(\d+)\s*-\s*(\d+)|\[\s*(\d+)\s*,\s*(\d+)\s*\])\s*$/;

/** Undefined for a value that is not a range of ports. */
export function parsePortRange(value: string | readonly [number, number]): PortRange | undefined {
  const [first = Number.NaN, last = Number.NaN] = typeof value === "string" ? portsIn(value) : value;
  const isRange = Number.isInteger(first) && Number.isInteger(last) && 1 <= first && first <= last;
  return isRange && last <= 65_535 ? [first, last] : undefined;
}

function portsIn(text: string): readonly number[] {
  const [, ...ports] = PORT_RANGE.exec(text) ?? [];
  return ports.filter((port) => port !== undefined).map(Number);
}

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
      "Kubeconfig of the cluster. Default: kubeconfig in the state folder (written by `metalbridge join`), then the environment variable KUBECONFIG, then ~/.kube/config.",
    )
    .optional(),
  context: z.string().min(1).describe("Context of the kubeconfig. Default: its current context.").optional(),
  hostName: z
    .string()
    .regex(
      /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/,
      "must be a DNS label: at most 63 of a-z, 0-9 and -, no - at an end",
    )
    .describe(
      "Name of this machine's Host object. Default: the name that this machine joined with, or its host name as a DNS label.",
    ),
  addresses: z
    .array(address(", which an EndpointSlice does not allow"))
    .max(16)
    .describe(
      "Addresses that engines serve on, in order of preference. Running engines keep their address while it is in the list. If empty, the agent uses the address of the route to the API server, or another one that the Host allows (add-a-host.md).",
    )
    .default([]),
  stateDir: path.describe(
    "State folder: models, engines and desired state. Default: ~/Library/Application Support/metalbridge on macOS; on Linux, /var/lib/metalbridge for root and ~/.local/state/metalbridge for other users.",
  ),
  // Not documented: for tests that replay another machine's tools.
  platform: z.enum(["darwin", "linux"]).meta({ hidden: true }),
  register: z
    .boolean()
    .describe(
      "Create the Host object if it does not exist, with the current address. If the address can change, add its CIDR to spec.addresses of the Host beforehand.",
    )
    .default(false),
  stopEngines: z
    .boolean()
    .describe(
      "Drain and stop the engines when the agent stops. If false, engines keep running and the next agent adopts them.",
    )
    .default(false),
  dryRun: z.boolean().describe("Print the plan and exit.").default(false),
  portRange: portRange
    .describe("Port range for engines, for example 21000-21999 or [21000, 21999].")
    .prefault("21000-21999"),
  ...engineConfigs,
  backends: backendsConfig,
  modelRoots: z
    .array(absolutePath)
    .describe("Folders that file:// sources may be in. If empty, file:// sources are not allowed.")
    .default([]),
  reportInstalled: z
    .boolean()
    .describe(
      "Report the names and sizes of models that other programs have on this machine in the Host's status. The agent finds them in its user's home folder, modelRoots and Ollama. All other hosts can read them.",
    )
    .default(true),
  huggingFace: z
    .strictObject({
      endpoint: endpoint
        .describe(
          "URL of the Hugging Face Hub or a mirror. Can also be set with the environment variable HF_ENDPOINT.",
        )
        .default("https://huggingface.co"),
      token: z
        .string()
        .min(1)
        .describe(
          "Token for Models without a Secret. Can also be set with the environment variable HF_TOKEN.",
        )
        .optional(),
      tokenFile: path.describe("File with the token, read once at startup.").optional(),
    })
    .prefault({}),
  proxy: z
    .strictObject({
      httpsProxy: endpoint
        .describe("Proxy for https:// addresses of sources. Overrides the environment variable HTTPS_PROXY.")
        .optional(),
      httpProxy: endpoint
        .describe("Proxy for http:// addresses of sources. Overrides the environment variable HTTP_PROXY.")
        .optional(),
      noProxy: z
        .string()
        .describe(
          "Names, domains (.example.com) and networks that are reached without a proxy, separated by commas. Overrides the environment variable NO_PROXY.",
        )
        .optional(),
    })
    .prefault({}),
  sources: z
    .strictObject({
      credentialsFile: path
        .describe(
          "YAML file with credentials for Models without a Secret, with the same keys as a Secret (AWS_ACCESS_KEY_ID, …). The file is read once at startup, and overrides environment variables with the same names.",
        )
        .optional(),
      credentials: z
        .record(z.string(), z.string())
        .describe(
          "Credentials with the same keys as sources.credentialsFile. They override the file and the environment.",
        )
        .optional(),
      allowPrivateAddresses: z
        .boolean()
        .describe("Allow sources in private networks, such as a mirror on the local network.")
        .default(true),
      allowLoopback: z
        .boolean()
        .describe(
          "Allow sources on this machine's loopback addresses. Link-local and metadata addresses are never allowed.",
        )
        .default(false),
      allowedHosts: z
        .array(z.string().min(1))
        .describe("Remote hosts that models may be downloaded from. If unset, all hosts are allowed.")
        .optional(),
      // Not documented: for tests with sources that fail.
      stallMs: milliseconds(3_600_000).min(100).default(30_000).meta({ hidden: true }),
      attempts: z.int().min(1).max(100).default(5).meta({ hidden: true }),
      maxDownloads: z
        .int()
        .min(1)
        .max(64)
        .describe(
          "Maximum number of files that this host downloads concurrently. Further downloads are queued. Half of the downloads are reserved for namespaces that have no other download in progress.",
        )
        .default(8),
      maxBytesPerSecond: bytes
        .describe(
          "Maximum total bandwidth of all downloads on this host, in bytes per second: 50Mi is about 420 Mbit/s. Minimum: 64Ki. If unset, there is no limit.",
        )
        .refine((rate) => rate >= 64 * 1024, "must be at least 64Ki")
        .optional(),
      connectionsPerFile: z
        .int()
        .min(1)
        .max(16)
        .describe(
          "Maximum number of connections per file. Multiple connections are used if the server supports range requests and the download would take more than 10 s on one connection. Set to 1 to always use one connection.",
        )
        .default(4),
    })
    .prefault({}),
  peers: z
    .strictObject({
      enabled: z
        .boolean()
        .describe(
          "Fetch weights from other hosts of the cluster if they have them, instead of the source, and serve the weights of this host to other hosts.",
        )
        .default(true),
      port: port
        .describe("Port on the host's address on which other hosts of the cluster fetch weights.")
        .default(20_999),
      maxRate: bytes
        .describe("Maximum total bandwidth for serving weights to other hosts, in bytes per second.")
        .prefault("100Mi")
        .refine((rate) => rate >= 1024 ** 2, "must be at least 1Mi"),
    })
    .prefault({}),
  disk: z
    .strictObject({
      quota: bytes.describe("Maximum disk space for stored models. If unset, there is no limit.").optional(),
      reserve: bytes.describe("Free disk space that downloads must leave on the volume.").prefault("5Gi"),
      verifyDays: z
        .int()
        .min(0)
        .max(3_650)
        .describe(
          "Interval in days at which stored files are hashed again in the background to detect bit rot. 0 disables the check.",
        )
        .default(30),
    })
    .prefault({}),
  memory: z
    .strictObject({
      budget: bytes
        .describe("Total memory that engines may claim. Default: the value that the machine reports.")
        .optional(),
      compute: z
        .strictObject({
          factor: z
            .number()
            .min(0.1)
            .max(10)
            .describe("Factor that the estimate of compute buffers is multiplied by."),
          extraBytes: z
            .int()
            .min(0)
            .max(2 ** 40)
            .describe("Bytes added to each engine's compute buffers."),
        })
        .describe(
          "Output of `metalbridge calibrate` from a machine of this kind. If unset, the agent uses the built-in table for CPUs, or an unmeasured estimate for Metal.",
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
  benchmark: z
    .strictObject({
      enabled: z
        .boolean()
        .describe(
          "Measure models that the controller orders while this host is idle. If false, other hosts of its class are measured.",
        )
        .default(true),
      // Not documented: for tests.
      idleMs: milliseconds(3_600_000).default(60_000).meta({ hidden: true }),
    })
    .prefault({}),
  engineLogs: z
    .strictObject({
      maxSize: bytes
        .describe("Size above which the agent rotates an engine's log in place, from 64Ki to 256Mi.")
        .prefault("16Mi")
        .refine((size) => size >= 64 * 1024 && size <= 256 * 1024 ** 2, "must be from 64Ki to 256Mi"),
      keep: z
        .int()
        .min(0)
        .max(100)
        .describe("Number of rotated logs to keep in addition to the current one.")
        .default(3),
    })
    .prefault({}),
  metricsPort: z
    .int()
    .min(0)
    .max(65_535)
    .describe("Loopback port of /healthz, /readyz and /metrics. 0 selects a free port.")
    .default(0),
  flexinferMetricNames: z
    .boolean()
    .describe(
      "Also export the metrics of speed, load time and GPU temperature under their names in FlexInfer, for existing dashboards.",
    )
    .default(false),
  metricsAddress: address()
    .describe(
      "Additional address for /metrics, on metricsPort, for a Prometheus on another machine. Requires metricsTokenFile. If unset, /metrics is served on loopback only.",
    )
    .optional(),
  metricsTokenFile: path
    .describe(
      "File with the bearer token required at metricsAddress. The file is read on each request, so the token can be rotated.",
    )
    .optional(),
  remoteAccess,
  llmfit: z
    .strictObject({
      enabled: z.boolean().describe("Serve llmfit's REST API for this machine.").default(false),
      address: z
        .union([z.ipv4(), z.ipv6()], { error: "must be an IP address" })
        .describe("Address of the API. Any address other than loopback requires llmfit.tokenFile.")
        .default("127.0.0.1"),
      port: z
        .int()
        .min(0)
        .max(65_535)
        .describe("Port of the API. 0 selects a free port.")
        .default(DEFAULT_LLMFIT_PORT),
      tokenFile: path
        .describe(
          "File with the bearer token that the API requires. The file is read on each request, so the token can be rotated.",
        )
        .optional(),
      catalog: path
        .describe(
          "File with additional models for the catalog of the API, in the format of the flag --catalog. The file is read on the first request.",
        )
        .optional(),
    })
    .refine(({ address, tokenFile }) => tokenFile !== undefined || isLoopback(address), {
      path: ["tokenFile"],
      message:
        "is required with an address that is not loopback: without a token, anyone could read what this machine has",
    })
    .prefault({}),
  logLevel: z
    .enum(["trace", "debug", "info", "warn", "error", "silent"])
    .describe("Minimum log level.")
    .default("info"),
  logFile: path
    .describe(
      "File that the agent logs to and rotates. If unset, the agent logs to standard error, without rotation.",
    )
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
        "is required with metricsAddress: without a token, anyone who can reach that address can read the metrics",
    },
  )
  .refine(({ metricsAddress, metricsPort }) => metricsAddress === undefined || metricsPort !== 0, {
    path: ["metricsPort"],
    message: "is required with metricsAddress: a free port would change with each start",
  });

export type AgentConfig = Readonly<z.output<typeof agentConfigSchema>>;
/** The settings of a file or of flags, where every key is optional. */
export type AgentSettings = {
  readonly [Key in keyof z.input<typeof agentConfigSchema>]?:
    | z.input<typeof agentConfigSchema>[Key]
    | undefined;
};
