/** Reads the Secrets that a replica names, when they are needed. They are never logged and never put on a command line. */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { SECRETS } from "../../../src/kube/kinds.ts";
import type { Secret } from "../../../src/kube/objects.ts";
import type { ApiResult, KubeClient, ObjectRef } from "../../../src/kube/types.ts";
import {
  CREDENTIAL_KEYS,
  pickCredentials,
  type SourceCredentials,
} from "../../../src/models/source/credentials.ts";
import { writeFileAtomic } from "../../../src/util/atomic-file.ts";
import type { GateFiles } from "../../engines/driver/engine.ts";

const KEY_FILE = "api-keys";
const MAX_KEYS = 1_000;
const MAX_KEY_BYTES = 1_024;
/** The controller grants access when it sees the replica, which may be slightly later than the agent. */
const GRANT_PAUSES_MS = [100, 200, 400, 800, 1_600, 3_200];

/** The credentials of a source; empty if it names no Secret. `onVersion` receives the Secret's version even if its keys are unusable. */
export async function readSourceSecret(
  client: KubeClient | undefined,
  namespace: string,
  name: string | undefined,
  onVersion: (version: string | undefined) => void = () => {},
): Promise<{ readonly credentials?: SourceCredentials; readonly version?: string | undefined }> {
  if (name === undefined) return {};
  const { data = {}, metadata } = await getSecret(client, namespace, name, {
    type: "generic",
    flags: "--from-literal=HF_TOKEN=…",
  });
  onVersion(metadata.resourceVersion);
  const credentials = pickCredentials((key) => data[key] && decodeSecret(data[key]));
  if (credentials === undefined) {
    throw new MetalbridgeError(
      "SecretIncomplete",
      `Secret ${namespace}/${name} has none of the keys ${CREDENTIAL_KEYS.join(", ")}`,
    );
  }
  return { credentials, version: metadata.resourceVersion };
}

/** The Secret's current resourceVersion; undefined if it cannot be read. `client` is undefined before the first connection. */
export async function versionOfSecret(
  client: KubeClient | undefined,
  namespace: string,
  name: string,
): Promise<string | undefined> {
  const answer = await client?.get(SECRETS, { namespace, name });
  return answer?.ok ? answer.value.metadata.resourceVersion : undefined;
}

/** Secrets of a start: files for the engine and the gate, and the key that probes send. */
export interface StartSecrets {
  readonly apiKeyFile?: string;
  readonly gateFiles?: GateFiles;
  readonly apiKey?: string;
}

/** Writes the engine's API key file, or keeps the one of an earlier start while the API server is unreachable. */
export async function writeKeyFile(
  client: KubeClient | undefined,
  replica: InferenceReplica,
  dir: string,
): Promise<StartSecrets> {
  const { auth } = replica.spec.template;
  if (auth === undefined) return {};
  try {
    const keys = await readKeys(client, replica.metadata.namespace ?? "", auth);
    return { apiKeyFile: await saveKeys(dir, keys.join("\n")), apiKey: keys[0] };
  } catch (error) {
    const storedKey = readKeyFile(dir);
    if (storedKey === undefined || !isSecretUnreadable(error)) throw error;
    return { apiKeyFile: join(dir, KEY_FILE), apiKey: storedKey };
  }
}

/** Writes the key file, which the engine reads at its start and the next agent for its probes. Returns the path. */
export async function saveKeys(dir: string, keys: string): Promise<string> {
  const path = join(dir, KEY_FILE);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  await writeFileAtomic(path, keys);
  return path;
}

/** The key that probes of an adopted engine send. */
export function readKeyFile(dir: string): string | undefined {
  try {
    return nonEmptyLines(readFileSync(join(dir, KEY_FILE), "utf8"))[0];
  } catch {
    return undefined;
  }
}

/** The API keys, one per line. Throws `SecretIncomplete` if there is none. */
export async function readKeys(
  client: KubeClient | undefined,
  namespace: string,
  { secretName, key }: { readonly secretName: string; readonly key: string },
): Promise<readonly string[]> {
  const data = await readSecret(client, namespace, secretName, {
    type: "generic",
    flags: `--from-literal=${key}=…`,
  });
  return apiKeysIn(decodeSecret(data[key] ?? ""), `Secret ${namespace}/${secretName}`, key);
}

/** Limits the keys, because every request is compared with all of them, which delays all services of the host. */
export function apiKeysIn(text: string, secret: string, key: string): readonly string[] {
  const keys = nonEmptyLines(text);
  if (keys.length === 0) throw new MetalbridgeError("SecretIncomplete", `${secret} has no key ${key}`);
  if (keys.length > MAX_KEYS)
    throw new MetalbridgeError("ApiKeysTooMany", `${secret} has ${keys.length} API keys in ${key}`);
  if (keys.some((one) => Buffer.byteLength(one) > MAX_KEY_BYTES))
    throw new MetalbridgeError("ApiKeysTooMany", `an API key in ${key} of ${secret} is too long`);
  return keys;
}

/** True if it is unknown whether the Secret exists. */
export function isSecretUnreadable(error: unknown): boolean {
  return error instanceof MetalbridgeError && error.code === "SecretUnreadable";
}

/** `create`: how to create the Secret, for the error's remedy. */
export async function readSecret(
  client: KubeClient | undefined,
  namespace: string,
  name: string,
  create: { readonly type: string; readonly flags: string },
): Promise<Record<string, string>> {
  return (await getSecret(client, namespace, name, create)).data ?? {};
}

async function getSecret(
  client: KubeClient | undefined,
  namespace: string,
  name: string,
  create: { readonly type: string; readonly flags: string },
): Promise<Secret> {
  if (client === undefined) throw unreadable(namespace, name, "not connected to the API server yet");
  const answer = await getOnceGranted(client, { namespace, name });
  if (answer.ok) return answer.value;
  const { kind, message } = answer.error;
  if (kind === "notFound") {
    throw new MetalbridgeError("SecretMissing", `Secret ${namespace}/${name} does not exist`, {
      summary: "create it; the agent retries automatically",
      command: `kubectl create secret ${create.type} ${name} -n ${namespace} ${create.flags}`,
    });
  }
  throw unreadable(namespace, name, message);
}

function unreadable(namespace: string, name: string, why: string): MetalbridgeError {
  return new MetalbridgeError("SecretUnreadable", `Secret ${namespace}/${name} could not be read: ${why}`);
}

async function getOnceGranted(client: KubeClient, ref: ObjectRef): Promise<ApiResult<Secret>> {
  for (const pauseMs of GRANT_PAUSES_MS) {
    const answer = await client.get(SECRETS, ref);
    if (answer.ok || answer.error.kind !== "forbidden") return answer;
    await pause(pauseMs);
  }
  return client.get(SECRETS, ref);
}

export function nonEmptyLines(text: string): readonly string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

export function decodeSecret(base64: string): string {
  return Buffer.from(base64, "base64").toString("utf8").trim();
}
