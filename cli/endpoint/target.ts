/** The endpoints of a service, and the API key and TLS settings for requests. */
import { readFile } from "node:fs/promises";
import type { Command } from "commander";
import { MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import {
  ANNOTATION_FINGERPRINTS,
  LABEL_HOST,
  LABEL_SERVICE,
  NAMESPACE_SYSTEM,
  SECRET_TRANSPORT,
} from "../../src/api/group.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { serviceName } from "../../src/api/names.ts";
import type { KeyedCertificate } from "../../src/crypto/certificate.ts";
import { ENDPOINT_SLICES, SECRETS } from "../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { hostInUrl } from "../../src/util/host-in-url.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { unwrapResult } from "../cluster/failure.ts";
import { listAll } from "../cluster/find.ts";
import { isAsleep, wakeAndWait } from "./wake.ts";

/** The host or node that an engine runs on. */
export interface Machine {
  readonly kind: "Host" | "Node";
  readonly name: string;
}

export interface ServerEndpoint {
  readonly address: string;
  readonly port: number;
  /** Fingerprints of the certificates of the host, if its replicas are sealed. */
  readonly fingerprints?: readonly string[];
  /** Absent for a server outside of the cluster. */
  readonly machine?: Machine;
}

/** Everything that a request to a service needs. */
export interface EndpointTarget {
  readonly endpoints: readonly ServerEndpoint[];
  readonly model: string;
  readonly apiKey?: string;
  /** Path before those of the API, for a URL such as https://gateway.example/team-a/v1. */
  readonly basePath?: string;
  /** Present if clients use HTTPS. Without `ca` the authorities of the system are trusted. */
  readonly tls?: { readonly servername: string; readonly ca?: string };
  /** The certificate of gateways and relays, if an endpoint is sealed. */
  readonly client?: KeyedCertificate | undefined;
}

export interface SecretFlags {
  readonly apiKeyFile?: string;
  readonly caFile?: string;
}

/** Contents of the files in `--api-key-file` and `--ca-file`. Throws BadEnvironment. */
export async function readSecretFlags({ apiKeyFile, caFile }: SecretFlags) {
  return {
    apiKey: apiKeyFile === undefined ? undefined : firstLine(await readFlag("--api-key-file", apiKeyFile)),
    ca: caFile === undefined ? undefined : await readFlag("--ca-file", caFile),
  };
}

/** `--api-key-file` and `--ca-file`. */
export function addSecretFlags(command: Command): Command {
  return command
    .option(
      "--api-key-file <file>",
      "file with the API key of the service (default: from the Secret in spec.auth)",
    )
    .option(
      "--ca-file <file>",
      "file with the certificate authority of the service (default: ca.crt or tls.crt from the Secret in spec.endpoint.tls)",
    );
}

/** The ready endpoints of replicas. */
export function readyEndpoints(slices: readonly EndpointSlice[]): readonly ServerEndpoint[] {
  return slices.flatMap(({ metadata, endpoints, ports }) => {
    const port = ports?.[0]?.port;
    if (port === undefined || port === null) return [];
    const host = metadata.labels?.[LABEL_HOST];
    const sealed = metadata.annotations?.[ANNOTATION_FINGERPRINTS];
    const fingerprints = sealed === undefined ? undefined : { fingerprints: sealed.split(",") };
    return (endpoints ?? [])
      .filter(({ conditions }) => conditions?.ready !== false)
      .flatMap(({ addresses, nodeName }) =>
        addresses
          .slice(0, 1)
          .map((address) => ({ address, port, machine: machineOf(host, nodeName), ...fingerprints })),
      );
  });
}

function machineOf(host: string | undefined, node: string | undefined): Machine | undefined {
  if (host !== undefined) return { kind: "Host", name: host };
  return node === undefined ? undefined : { kind: "Node", name: node };
}

/** Selects the slices of a service. */
export function slicesOf({ metadata }: InferenceService): {
  readonly namespace: string;
  readonly labelSelector: string;
} {
  return {
    namespace: metadata.namespace ?? "default",
    labelSelector: `${LABEL_SERVICE}=${metadata.name}`,
  };
}

/** Wakes an idle service. Throws NoReadyEndpoint, the errors of reading the Secrets, or the reason of `signal`. */
export async function findEndpointTarget(
  cluster: Cluster,
  service: InferenceService,
  flags: SecretFlags,
  signal: AbortSignal,
): Promise<EndpointTarget> {
  const selection = slicesOf(service);
  const list = async () => readyEndpoints(await listAll(cluster, ENDPOINT_SLICES, selection));
  let endpoints = await list();
  if (endpoints.length === 0 && isAsleep(service)) {
    await wakeAndWait(cluster, service, selection, signal);
    endpoints = await list();
  }
  if (endpoints.length === 0) throw noEndpoint(service);
  const apiKey = await keyOf(cluster, service, flags);
  const tls = await tlsOf(cluster, service, flags);
  return { endpoints, model: service.metadata.name, apiKey, tls, client: await clientOf(cluster, endpoints) };
}

function noEndpoint({ metadata, status }: InferenceService): MetalbridgeError {
  const why = status?.message === undefined ? "" : `: ${status.message}`;
  return new MetalbridgeError(
    "NoReadyEndpoint",
    `service ${metadata.name} is ${status?.phase ?? "Pending"} and has no ready endpoint${why}`,
    remedyOf("NoReadyEndpoint", { service: `${metadata.name} -n ${metadata.namespace ?? "default"}` }),
  );
}

/**
 * The certificate with which sealed endpoints let this user connect; undefined if none is sealed. Throws SealedEndpoint for a user
 * who may not read it.
 */
export async function clientOf(
  cluster: Pick<Cluster, "client">,
  endpoints: readonly ServerEndpoint[],
): Promise<KeyedCertificate | undefined> {
  if (!endpoints.some(({ fingerprints }) => fingerprints !== undefined)) return undefined;
  const data = await readSecret(cluster, NAMESPACE_SYSTEM, SECRET_TRANSPORT).catch((cause: unknown) => {
    const message = `the hosts serve only gateways and relays, and their certificate cannot be read: ${errorMessage(cause)}`;
    throw new MetalbridgeError("SealedEndpoint", message, undefined, { cause });
  });
  return { cert: data["tls.crt"] ?? "", key: data["tls.key"] ?? "" };
}

/** `http://address:port`, or `https://…`, and the base path. */
export function urlOf(
  { tls, basePath = "" }: Pick<EndpointTarget, "tls" | "basePath">,
  { address, port, fingerprints }: ServerEndpoint,
): string {
  const scheme = tls === undefined && fingerprints === undefined ? "http" : "https";
  return `${scheme}://${hostInUrl(address)}:${port}${basePath}`;
}

/** From a file, or from the Secret that the service names. */
async function keyOf(
  cluster: Cluster,
  { metadata, spec: { auth } }: InferenceService,
  { apiKeyFile }: SecretFlags,
): Promise<string | undefined> {
  if (apiKeyFile !== undefined) return (await readSecretFlags({ apiKeyFile })).apiKey;
  if (auth === undefined) return undefined;
  const data = await readSecret(cluster, metadata.namespace, auth.secretRef.name);
  return firstLine(data[auth.key] ?? "");
}

/** Engines are reached by address, but the certificate has the name of the Service. */
async function tlsOf(
  cluster: Cluster,
  { metadata, spec: { endpoint } }: InferenceService,
  { caFile }: SecretFlags,
): Promise<EndpointTarget["tls"]> {
  if (endpoint.tls === undefined) return undefined;
  const servername = `${serviceName(metadata.name)}.${metadata.namespace ?? "default"}.svc`;
  if (caFile !== undefined) return { servername, ca: (await readSecretFlags({ caFile })).ca };
  const data = await readSecret(cluster, metadata.namespace, endpoint.tls.secretRef.name);
  const ca = data["ca.crt"] ?? data["tls.crt"];
  return ca === undefined ? { servername } : { servername, ca };
}

async function readSecret(
  { client }: Pick<Cluster, "client">,
  namespace: string | undefined,
  name: string,
): Promise<Readonly<Record<string, string>>> {
  const attempt = { verb: "get", kind: SECRETS, name, namespace } as const;
  const secret = unwrapResult(attempt, await client.get(SECRETS, { name, namespace }));
  const decode = (value: string) => Buffer.from(value, "base64").toString("utf8");
  return Object.fromEntries(Object.entries(secret.data ?? {}).map(([key, value]) => [key, decode(value)]));
}

async function readFlag(flag: string, path: string): Promise<string> {
  return readFile(path, "utf8").catch((cause: unknown) => {
    throw new MetalbridgeError("BadEnvironment", `${flag} ${path} cannot be read`, undefined, { cause });
  });
}

/** A Secret may hold several keys, one per line. */
function firstLine(text: string): string | undefined {
  return text
    .split("\n")
    .map((line) => line.trim())
    .find((line) => line !== "");
}
