/** Where the engines of a service answer from this machine, and with which key. */
import { readFile } from "node:fs/promises";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { LABEL_SERVICE_NAME } from "../../src/api/group.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { serviceName } from "../../src/api/names.ts";
import { ENDPOINT_SLICES, SECRETS } from "../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { explainAttempt } from "../cluster/failure.ts";
import { listAll } from "../cluster/find.ts";

export interface Endpoint {
  readonly address: string;
  readonly port: number;
}

/** What requests to a service need. */
export interface Target {
  readonly endpoints: readonly Endpoint[];
  readonly model: string;
  readonly apiKey?: string;
}

export interface KeyFlags {
  readonly apiKeyFile?: string;
}

/** The ready endpoints, as kube-proxy would choose from them. */
export function readyEndpoints(slices: readonly EndpointSlice[]): readonly Endpoint[] {
  return slices.flatMap(({ endpoints, ports }) => {
    const port = ports?.[0]?.port;
    if (port === undefined || port === null) return [];
    return (endpoints ?? [])
      .filter(({ conditions }) => conditions?.ready !== false)
      .flatMap(({ addresses }) => addresses.slice(0, 1).map((address) => ({ address, port })));
  });
}

/** Selects the slices of a service. */
export function slicesOf({ metadata }: InferenceService): {
  readonly namespace: string;
  readonly labelSelector: string;
} {
  return {
    namespace: metadata.namespace ?? "default",
    labelSelector: `${LABEL_SERVICE_NAME}=${serviceName(metadata.name)}`,
  };
}

/** Throws NoReadyEndpoint, and what hinders reading the key. */
export async function findTarget(
  cluster: Cluster,
  service: InferenceService,
  flags: KeyFlags,
): Promise<Target> {
  const endpoints = readyEndpoints(await listAll(cluster, ENDPOINT_SLICES, slicesOf(service)));
  if (endpoints.length === 0) throw noEndpoint(service);
  const apiKey = await keyOf(cluster, service, flags);
  return { endpoints, model: service.metadata.name, ...(apiKey === undefined ? {} : { apiKey }) };
}

export function noEndpoint({ metadata, status }: InferenceService): MetalbridgeError {
  const why = status?.message === undefined ? "" : `: ${status.message}`;
  return new MetalbridgeError(
    "NoReadyEndpoint",
    `service ${metadata.name} is ${status?.phase ?? "Pending"} and has no ready endpoint${why}`,
  );
}

/** `http://address:port` */
export function urlOf({ address, port }: Endpoint): string {
  return `http://${address.includes(":") ? `[${address}]` : address}:${port}`;
}

/** From a file, or from the Secret that the service names. */
async function keyOf(
  cluster: Cluster,
  { metadata, spec }: InferenceService,
  { apiKeyFile }: KeyFlags,
): Promise<string | undefined> {
  if (apiKeyFile !== undefined) return firstLine(await readKeyFile(apiKeyFile));
  const { auth } = spec;
  if (auth === undefined) return undefined;
  const ref = { name: auth.secretRef.name, namespace: metadata.namespace };
  const secret = await cluster.client.get(SECRETS, ref);
  if (!secret.ok) throw explainAttempt({ verb: "get", kind: SECRETS, ...ref }, secret.error);
  return firstLine(Buffer.from(secret.value.data?.[auth.key] ?? "", "base64").toString("utf8"));
}

async function readKeyFile(path: string): Promise<string> {
  return readFile(path, "utf8").catch((cause: unknown) => {
    throw new MetalbridgeError("BadEnvironment", `--api-key-file ${path} cannot be read`, undefined, {
      cause,
    });
  });
}

/** A Secret may hold several keys, one per line. */
function firstLine(text: string): string | undefined {
  return text
    .split("\n")
    .map((line) => line.trim())
    .find((line) => line !== "");
}
