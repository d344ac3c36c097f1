/** The server's flags, validated once at the start. */
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { MetalbridgeError } from "../src/api/errors.ts";
import { NAMESPACE_SYSTEM } from "../src/api/group.ts";
import { parseSettings } from "../src/api/settings.ts";
import { scoreWeightsSchema } from "../src/capacity/score.ts";
import { isLoopback } from "../src/http/loopback.ts";
import { errorMessage } from "../src/util/error-message.ts";

const address = (description: string) => z.string().min(1).default("127.0.0.1").describe(description);
const port = (byDefault: number, description: string) =>
  z.coerce.number().int().min(0).max(65535).default(byDefault).describe(description);
const file = (description: string) => z.string().min(1).optional().describe(description);
const url = (description: string) =>
  z
    .url({ protocol: /^https?$/, error: "must be a URL that begins with http:// or https://" })
    .transform((text) => text.replace(/\/+$/, ""))
    .optional()
    .describe(description);

export const serverConfigSchema = z
  .strictObject({
    kubeconfig: file(
      "Kubeconfig of the cluster. Default: KUBECONFIG, then ~/.kube/config, then the pod's ServiceAccount.",
    ),
    context: z.string().min(1).optional().describe("Context of the kubeconfig."),
    address: address("Address of the density API."),
    port: port(8080, "Port of the density API. 0 selects a free port."),
    tlsCert: file(
      "File with the certificate chain (PEM) of the density API. If unset, the API is served over plain HTTP.",
    ),
    tlsKey: file("File with the private key (PEM) of tlsCert."),
    healthAddress: address("Address of /healthz, /readyz and /metrics."),
    healthPort: port(9464, "Port of /healthz, /readyz and /metrics. 0 selects a free port."),
    extenderPort: z.coerce
      .number()
      .int()
      .min(0)
      .max(65535)
      .optional()
      .describe("Port that kube-scheduler connects to as its extender. Unset: none. 0 selects a free port."),
    extenderTlsCert: file(
      "File with the certificate chain (PEM) of extenderPort. If unset, the port is served over plain HTTP, on a loopback address only.",
    ),
    extenderTlsKey: file("File with the private key (PEM) of extenderTlsCert."),
    metricsPrefix: z
      .string()
      .regex(/^[a-z][a-z0-9_]{0,63}$/)
      .default("metalbridge_density")
      .describe("Prefix of the names of density metrics, for existing dashboards that expect other names."),
    scoreWeights: scoreWeightsSchema,
    console: z.boolean().default(true).describe("Serves the console at /console/ of the density API's port."),
    consoleReadOnly: z
      .boolean()
      .default(false)
      .describe("Refuses changes that readers make in the console, except dry runs."),
    sessionKeyFile: file(
      "File with a secret of at least 32 bytes that seals sessions of the console. Replicas of the server share it. If unset, sessions end with the server.",
    ),
    oidcIssuer: url(
      "URL of the identity provider (OpenID Connect) with which readers sign in to the console. The API server must accept its ID tokens.",
    ),
    oidcClientId: z.string().min(1).optional().describe("Client ID of the console at the identity provider."),
    oidcClientSecretFile: file("File with the client secret. If unset, the console is a public client."),
    oidcScopes: z
      .string()
      .min(1)
      .default("openid profile email offline_access")
      .describe("Scopes of the sign-in, separated by spaces; offline_access asks for a refresh token."),
    oidcCaFile: file(
      "File with the authority (PEM) that has signed the identity provider's certificate, in addition to the public ones.",
    ),
    gatewayUrl: url(
      "Base URL of the gateway, without /v1, for the playground of the console. If unset, the console has no playground.",
    ),
    gatewayCaFile: file(
      "File with the authority (PEM) that has signed the certificate of gatewayUrl. Default: the public ones.",
    ),
    gatewayPublicUrl: url(
      "Base URL of the gateway as clients reach it, which the console shows. Default: gatewayUrl.",
    ),
    gatewayHealthUrl: z
      .array(z.url({ protocol: /^https?$/ }))
      .default([])
      .describe(
        "Base URLs of the health ports of gateways, from which the console reads the queues of requests. Default: the pods of the gateway in gatewayNamespace.",
      ),
    gatewayNamespace: z
      .string()
      .min(1)
      .default(NAMESPACE_SYSTEM)
      .describe(
        "Namespace with the pods of the gateway, and with its keys unless gatewayKeysNamespace names another one.",
      ),
    gatewayKeysNamespace: z
      .string()
      .min(1)
      .optional()
      .describe("Namespace with the keys of the gateway. Default: gatewayNamespace."),
    gatewayKubernetesTokens: z
      .boolean()
      .default(false)
      .describe(
        "The gateway accepts tokens of Kubernetes. The console then sends the reader's own token to the gateway if the reader has chosen no key.",
      ),
  })
  .refine(({ tlsCert, tlsKey }) => (tlsCert === undefined) === (tlsKey === undefined), {
    path: ["tlsKey"],
    message: "must be set together with tlsCert",
  })
  .refine(
    ({ extenderTlsCert, extenderTlsKey }) =>
      (extenderTlsCert === undefined) === (extenderTlsKey === undefined),
    { path: ["extenderTlsKey"], message: "must be set together with extenderTlsCert" },
  )
  .refine(
    ({ extenderPort, extenderTlsCert, address }) =>
      extenderPort === undefined || extenderTlsCert !== undefined || isLoopback(address),
    {
      path: ["extenderTlsCert"],
      message: "is required with extenderPort unless address is a loopback address",
    },
  )
  .refine(({ oidcIssuer, oidcClientId }) => (oidcIssuer === undefined) === (oidcClientId === undefined), {
    path: ["oidcClientId"],
    message: "must be set together with oidcIssuer",
  });

export type ServerConfig = Readonly<z.output<typeof serverConfigSchema>>;

/** Throws MetalbridgeError that names the key. */
export function parseServerConfig(input: unknown): ServerConfig {
  return parseSettings(serverConfigSchema, input, "ServerConfigInvalid");
}

const MIN_SECRET_BYTES = 32;

/** The files that the console's settings name. Throws ServerConfigInvalid. */
export async function readConsoleFiles(config: ServerConfig) {
  return {
    sessionSecret: await readSessionSecret(config),
    clientSecret: (await readSetting(config, "oidcClientSecretFile"))?.toString("utf8").trim(),
    authority: (await readSetting(config, "oidcCaFile"))?.toString("utf8"),
    gatewayAuthority: (await readSetting(config, "gatewayCaFile"))?.toString("utf8"),
  };
}

async function readSessionSecret(config: ServerConfig): Promise<Buffer | undefined> {
  const { sessionKeyFile } = config;
  const secret = await readSetting(config, "sessionKeyFile");
  if (secret === undefined) return undefined;
  if (secret.length >= MIN_SECRET_BYTES) return secret;
  const message = `sessionKeyFile: ${sessionKeyFile} has less than ${MIN_SECRET_BYTES} bytes`;
  throw new MetalbridgeError("ServerConfigInvalid", message);
}

async function readSetting(
  config: ServerConfig,
  key: "sessionKeyFile" | "oidcClientSecretFile" | "oidcCaFile" | "gatewayCaFile",
): Promise<Buffer | undefined> {
  const name = config[key];
  if (name === undefined) return undefined;
  return readFile(name).catch((cause: unknown) => {
    throw new MetalbridgeError("ServerConfigInvalid", `${key}: ${errorMessage(cause)}`);
  });
}
