/** The gateway's settings, validated once at start. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { z } from "zod";
import { MetalbridgeError } from "../src/api/errors.ts";
import { NAMESPACE_SYSTEM } from "../src/api/group.ts";
import { parseSettings } from "../src/api/settings.ts";
import { keyLimitsSchema } from "../src/gateway/key.ts";
import { GATEWAY_HEALTH_PORT } from "../src/gateway/request-queues.ts";

const port = (byDefault: number, description: string) =>
  z.coerce.number().int().min(0).max(65535).default(byDefault).describe(description);
const text = (description: string) => z.string().min(1).optional().describe(description);

/** Absolute: Envoy does not run in the folder where the gateway was started. */
const path = z
  .string()
  .min(1)
  .overwrite((given) => resolve(given));
const file = (description: string) => path.optional().describe(description);

const COUNTERS_FORM = "must be redis://HOST:PORT, or rediss:// for TLS";
const countersUrl = z.url({ protocol: /^rediss?$/, error: COUNTERS_FORM });

/** For example `requestsPerMinute=60,tokensPerDay=1000000`. */
const userLimits = z
  .string()
  .transform((list) =>
    Object.fromEntries(
      list.split(",").map((one) => {
        const [name = "", value = ""] = one.split("=");
        return [name.trim(), Number(value)];
      }),
    ),
  )
  .pipe(keyLimitsSchema);

export const GATEWAY_PORT = 4000;

export const gatewayConfigSchema = z
  .strictObject({
    kubeconfig: text(
      "Kubeconfig of the cluster. Default: KUBECONFIG, then ~/.kube/config, then the pod's ServiceAccount.",
    ),
    context: text("Context of the kubeconfig."),
    dir: path.describe("Folder of the gateway: configuration and log of Envoy, sockets."),
    envoy: z
      .string()
      .min(1)
      .overwrite((program) => (program === "external" ? program : resolve(program)))
      .describe('Envoy program. "external": another process runs Envoy with the folder of the gateway.'),
    address: z
      .string()
      .min(1)
      .default("127.0.0.1")
      .describe("Address that clients use. Without any key, the gateway listens on loopback only."),
    port: z.coerce.number().int().min(1).max(65535).default(GATEWAY_PORT).describe("Port that clients use."),
    namespace: z
      .string()
      .min(1)
      .default(NAMESPACE_SYSTEM)
      .describe(
        "Namespace with the records of usage, and with the Secrets of keys unless `keysNamespace` names another one.",
      ),
    keysNamespace: text("Namespace with the Secrets of keys. Default: `namespace`."),
    service: text(
      "Service of the gateways in that namespace. Its endpoints are counted, and each gateway takes its share of slots and limits.",
    ),
    tlsCert: file("File with the certificate chain (PEM). If unset, the gateway serves plain HTTP."),
    tlsKey: file("File with the private key (PEM) of tlsCert."),
    upstreamCa: file(
      "File with the CA certificates (PEM) that verify replicas with spec.endpoint.tls. If unset, requests for such services are refused.",
    ),
    upstreamCert: file(
      "File with the certificate chain (PEM) that the gateway presents to replicas with HTTPS.",
    ),
    upstreamKey: file("File with the private key (PEM) of upstreamCert."),
    kubernetesTokens: z
      .boolean()
      .default(false)
      .describe("Accept tokens of Kubernetes users who may use inferenceservices/use."),
    userLimits: userLimits
      .optional()
      .describe(
        `Limits of each Kubernetes user, as LIMIT=NUMBER separated by commas: ${Object.keys(keyLimitsSchema.shape).join(", ")}. Default: none.`,
      ),
    corsOrigins: z
      .array(z.string().min(1))
      .default([])
      .describe("Origins of browsers that may call the gateway. Default: none."),
    maxBodyBytes: z.coerce
      .number()
      .int()
      .min(1024)
      .default(32 * 2 ** 20)
      .describe("Largest body of a request, in bytes."),
    counters: countersUrl
      .optional()
      .describe("Redis or Valkey that several gateways share for limits, as redis://HOST:PORT."),
    countersFile: text("File with the URL of counters, for a URL with a password."),
    otlpEndpoint: z
      .url({ protocol: /^https?$/, error: "must be http://HOST:PORT or https://HOST:PORT" })
      .optional()
      .describe("Collector of OpenTelemetry (OTLP over HTTP) that receives spans and metrics of requests."),
    userJwtSecretFile: text(
      "File with the secret by which Open WebUI signs X-OpenWebUI-User-Jwt. The queue is then fair between its users.",
    ),
    healthAddress: z
      .string()
      .min(1)
      .default("127.0.0.1")
      .describe("Address of /healthz, /readyz, /metrics and /queues."),
    healthPort: port(
      GATEWAY_HEALTH_PORT,
      "Port of /healthz, /readyz, /metrics and /queues. 0 selects a free port.",
    ),
  })
  .refine(({ tlsCert, tlsKey }) => (tlsCert === undefined) === (tlsKey === undefined), {
    path: ["tlsKey"],
    message: "must be set together with tlsCert",
  })
  .refine(({ upstreamCert, upstreamKey }) => (upstreamCert === undefined) === (upstreamKey === undefined), {
    path: ["upstreamKey"],
    message: "must be set together with upstreamCert",
  })
  .refine(({ upstreamCert, upstreamCa }) => upstreamCert === undefined || upstreamCa !== undefined, {
    path: ["upstreamCa"],
    message: "is required with upstreamCert",
  })
  .refine(({ userLimits: limits, kubernetesTokens }) => limits === undefined || kubernetesTokens, {
    path: ["userLimits"],
    message: "requires kubernetesTokens",
  });

export type GatewayConfig = Readonly<z.output<typeof gatewayConfigSchema>>;

/** Throws MetalbridgeError that names the key. */
export function parseGatewayConfig(input: unknown): GatewayConfig {
  return parseSettings(gatewayConfigSchema, input, "GatewayConfigInvalid");
}

/** Undefined without a file. Throws MetalbridgeError if it cannot be read or is empty. */
export function readUserJwtSecret({
  userJwtSecretFile,
}: Pick<GatewayConfig, "userJwtSecretFile">): Promise<string | undefined> {
  return readSecretFile("userJwtSecretFile", userJwtSecretFile);
}

/** URL of the shared counters, from the setting or its file. Throws MetalbridgeError if the file has none. */
export async function readCountersUrl({
  counters,
  countersFile,
}: Pick<GatewayConfig, "counters" | "countersFile">): Promise<string | undefined> {
  const url = await readSecretFile("countersFile", countersFile);
  if (url === undefined) return counters;
  if (counters !== undefined)
    throw new MetalbridgeError("GatewayConfigInvalid", "countersFile: cannot be set together with counters");
  if (countersUrl.safeParse(url).success) return url;
  // The text may have a password.
  throw new MetalbridgeError("GatewayConfigInvalid", `countersFile: ${countersFile} ${COUNTERS_FORM}`);
}

async function readSecretFile(setting: string, file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  const secret = await readFile(file, "utf8").catch((cause: unknown) => {
    throw new MetalbridgeError("GatewayConfigInvalid", `${setting}: cannot read ${file}`, undefined, {
      cause,
    });
  });
  if (secret.trim() === "")
    throw new MetalbridgeError("GatewayConfigInvalid", `${setting}: ${file} is empty`);
  return secret.trim();
}
