/** Secrets that a replica names: read when needed, never logged, never on a command line. */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { SECRETS } from "../../../src/kube/kinds.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import { writeFileAtomicSync } from "../../atomic-file.ts";

/** Keys of a source's Secret that hold its token, first match wins. */
const TOKEN_KEYS = ["token", "HF_TOKEN", "hf-token", "password"];
const KEY_FILE = "api-keys";

/** The credentials of a source; empty where it names no Secret. */
export async function readSourceSecret(
  client: KubeClient,
  namespace: string,
  name: string | undefined,
): Promise<{ readonly token?: string }> {
  if (name === undefined) return {};
  const data = await readSecret(client, namespace, name, "HF_TOKEN");
  const key = TOKEN_KEYS.find((candidate) => data[candidate] !== undefined);
  if (key === undefined) {
    throw new MetalbridgeError(
      "SecretIncomplete",
      `Secret ${namespace}/${name} has none of the keys ${TOKEN_KEYS.join(", ")}`,
    );
  }
  return { token: decode(data[key] ?? "") };
}

/** Writes the engine's API key file, or keeps the one from an earlier start while the API server is away. */
export async function writeKeyFile(
  client: KubeClient,
  replica: InferenceReplica,
  dir: string,
): Promise<{ readonly path: string; readonly apiKey: string } | undefined> {
  const { auth } = replica.spec.template;
  if (auth === undefined) return undefined;
  const path = join(dir, KEY_FILE);
  const namespace = replica.metadata.namespace ?? "";
  try {
    const data = await readSecret(client, namespace, auth.secretName, auth.key);
    const value = decode(data[auth.key] ?? "");
    const apiKey = firstKey(value);
    if (apiKey === undefined) {
      throw new MetalbridgeError(
        "SecretIncomplete",
        `Secret ${namespace}/${auth.secretName} has no key ${auth.key}`,
      );
    }
    keepKeys(dir, value);
    return { path, apiKey };
  } catch (error) {
    const kept = readKeyFile(dir);
    if (kept === undefined || !(error instanceof MetalbridgeError) || error.code !== "SecretUnreadable")
      throw error;
    return { path, apiKey: kept };
  }
}

/** Read by the engine at its start, and by the next agent for its probes. */
export function keepKeys(dir: string, keys: string): void {
  const path = join(dir, KEY_FILE);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  writeFileAtomicSync(path, keys);
}

/** The key that probes of an adopted engine send. */
export function readKeyFile(dir: string): string | undefined {
  try {
    return firstKey(readFileSync(join(dir, KEY_FILE), "utf8"));
  } catch {
    return undefined;
  }
}

/** `key` is named in the remedy. */
async function readSecret(
  client: KubeClient,
  namespace: string,
  name: string,
  key: string,
): Promise<Record<string, string>> {
  const answer = await client.get(SECRETS, { namespace, name });
  if (answer.ok) return answer.value.data ?? {};
  const { kind, message } = answer.error;
  if (kind === "notFound") {
    throw new MetalbridgeError("SecretMissing", `Secret ${namespace}/${name} does not exist`, {
      summary: "create it; the agent retries automatically",
      command: `kubectl create secret generic ${name} -n ${namespace} --from-literal=${key}=…`,
    });
  }
  throw new MetalbridgeError("SecretUnreadable", `Secret ${namespace}/${name} could not be read: ${message}`);
}

function decode(base64: string): string {
  return Buffer.from(base64, "base64").toString("utf8").trim();
}

function firstKey(text: string): string | undefined {
  return text
    .split("\n")
    .map((line) => line.trim())
    .find((line) => line !== "");
}
