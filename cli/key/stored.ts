/** Keys as stored in Secrets: read, created, changed. */
import { randomBytes } from "node:crypto";
import { MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import { LABEL_GATEWAY_KEY } from "../../src/api/group.ts";
import type { GatewayKey } from "../../src/gateway/key.ts";
import {
  encodeKey,
  KEY_BYTES,
  KEY_FIELD,
  keySecret,
  type NewKey,
  newKey,
  readKeySecret,
} from "../../src/gateway/key-secret.ts";
import { SECRETS } from "../../src/kube/kinds.ts";
import type { Secret } from "../../src/kube/objects.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { patchObject, unwrapResult } from "../cluster/failure.ts";
import { findIfPresent, listAll } from "../cluster/find.ts";

export interface StoredKey {
  readonly secret: Secret;
  readonly key: GatewayKey;
}

export function generateKey(nowMs: number): NewKey {
  return newKey(randomBytes(KEY_BYTES), nowMs);
}

/** All Secrets with the label of keys, valid or not: with none, the gateway requires no key. */
export function listKeySecrets(cluster: Cluster): Promise<readonly Secret[]> {
  const { namespace } = cluster;
  return listAll(cluster, SECRETS, { namespace, labelSelector: `${LABEL_GATEWAY_KEY}=true` });
}

/** The Secret, also if it is not a valid key. Throws GatewayKeyNotFound. */
export async function findKeySecret(cluster: Cluster, name: string): Promise<Secret> {
  const secret = await findIfPresent(cluster, SECRETS, name);
  if (secret?.metadata.labels?.[LABEL_GATEWAY_KEY] === "true") return secret;
  const { namespace } = cluster;
  throw new MetalbridgeError(
    "GatewayKeyNotFound",
    `namespace ${namespace} has no key ${name}`,
    remedyOf("GatewayKeyNotFound", { namespace }),
  );
}

/** Throws GatewayKeyNotFound or GatewayKeyInvalid. */
export async function findKey(cluster: Cluster, name: string): Promise<StoredKey> {
  const secret = await findKeySecret(cluster, name);
  const read = readKeySecret(secret);
  if (read.at === "invalid")
    throw new MetalbridgeError(
      "GatewayKeyInvalid",
      `the Secret ${name} is not a valid key: ${read.problem}`,
      remedyOf("GatewayKeyInvalid", { name: `${name} -n ${cluster.namespace}` }),
    );
  return { secret, key: read.key };
}

/** Throws GatewayKeyExists if there is a Secret with this name. */
export async function createKey(
  { client, namespace }: Cluster,
  name: string,
  key: GatewayKey,
): Promise<void> {
  const made = await client.create(SECRETS, keySecret(namespace, name, key));
  if (!made.ok && made.error.kind === "alreadyExists")
    throw new MetalbridgeError("GatewayKeyExists", `namespace ${namespace} already has a Secret ${name}`);
  unwrapResult({ verb: "create", kind: SECRETS, name, namespace }, made);
}

/** Fails if the Secret has changed since it was read. */
export async function changeKey(cluster: Cluster, { secret }: StoredKey, key: GatewayKey): Promise<void> {
  const { resourceVersion } = secret.metadata;
  await patchObject(cluster, SECRETS, secret, [
    { op: "test", path: "/metadata/resourceVersion", value: resourceVersion },
    { op: "replace", path: `/data/${KEY_FIELD}`, value: encodeKey(key) },
  ]);
}
