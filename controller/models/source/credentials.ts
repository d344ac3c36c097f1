/** Reads the credentials of a Model's source from the Secret that the Model names. */
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { Model } from "../../../src/api/model.ts";
import { permanent, SourceFailure, transient } from "../../../src/hub/failure.ts";
import { SECRETS } from "../../../src/kube/kinds.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import {
  CREDENTIAL_KEYS,
  pickCredentials,
  type SourceCredentials,
  unsendableKey,
} from "../../../src/models/source/credentials.ts";

/** The resourceVersion of the Secret that the Model names; undefined if it names none, or the Secret cannot be read. */
export async function secretVersionOf(
  client: KubeClient,
  { metadata: { namespace }, spec }: Model,
): Promise<string | undefined> {
  const name = spec.sourceSecretRef?.name;
  if (name === undefined) return undefined;
  const result = await client.get(SECRETS, { name, namespace });
  return result.ok ? result.value.metadata.resourceVersion : undefined;
}

/** Undefined if the Model names no Secret. Rejects with SourceFailure. */
export async function readCredentials(
  client: KubeClient,
  { metadata, spec }: Model,
): Promise<SourceCredentials | undefined> {
  const name = spec.sourceSecretRef?.name;
  if (name === undefined) return undefined;
  const result = await client.get(SECRETS, { name, namespace: metadata.namespace });
  const shown = `Secret ${metadata.namespace}/${name}`;
  if (!result.ok) {
    const { kind, message } = result.error;
    if (kind === "notFound") {
      const remedy = {
        summary: "create it with the keys of the source, for example HF_TOKEN",
        command: `kubectl create secret generic ${name} -n ${metadata.namespace} --from-literal=HF_TOKEN=…`,
      };
      const error = new MetalbridgeError("SourceSecretInvalid", `${shown} does not exist`, remedy);
      throw new SourceFailure(error, false);
    }
    throw transient("SourceSecretInvalid", `${shown} could not be read: ${message}`);
  }
  const data = result.value.data ?? {};
  const credentials = pickCredentials(
    (key) => data[key] && Buffer.from(data[key], "base64").toString("utf8"),
  );
  if (credentials === undefined)
    throw permanent("SourceSecretInvalid", `${shown} has none of the keys ${CREDENTIAL_KEYS.join(", ")}`);
  const bad = unsendableKey(credentials);
  if (bad !== undefined)
    throw permanent(
      "SourceSecretInvalid",
      `${shown}: ${bad} is empty or contains characters that a header must not contain`,
    );
  return credentials;
}
