/** The token of a Model's source, from the Secret that it names. */
import type { Model } from "../../src/api/model.ts";
import { SECRETS } from "../../src/kube/kinds.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { lasting, passing } from "./remote/failure.ts";

/** First match wins; hosts read the same keys. */
const TOKEN_KEYS = ["token", "HF_TOKEN", "hf-token", "password"];

/** Headers with the credential; none where the Model names no Secret. Rejects with LookFailure. */
export async function readSecretHeaders(
  client: KubeClient,
  { metadata, spec }: Model,
): Promise<Record<string, string>> {
  const name = spec.sourceSecretRef?.name;
  if (name === undefined) return {};
  const result = await client.get(SECRETS, { name, namespace: metadata.namespace });
  const shown = `Secret ${metadata.namespace}/${name}`;
  if (!result.ok) {
    const { kind, message } = result.error;
    if (kind === "notFound") throw lasting("SourceSecretInvalid", `${shown} does not exist`);
    throw passing("SourceSecretInvalid", `${shown} could not be read: ${message}`);
  }
  const data = result.value.data ?? {};
  const key = TOKEN_KEYS.find((candidate) => data[candidate] !== undefined);
  if (key === undefined)
    throw lasting("SourceSecretInvalid", `${shown} has none of the keys ${TOKEN_KEYS.join(", ")}`);
  const token = Buffer.from(data[key] ?? "", "base64")
    .toString("utf8")
    .trim();
  if (!/^[\x21-\x7e]+$/.test(token))
    throw lasting(
      "SourceSecretInvalid",
      `${shown}: ${key} is empty or holds characters that a header may not`,
    );
  return { authorization: `Bearer ${token}` };
}
