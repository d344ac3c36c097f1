/** The token of a Model's source, from the Secret that it names. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Model } from "../../src/api/model.ts";
import { permanent, SourceFailure, transient } from "../../src/hub/failure.ts";
import { SECRETS } from "../../src/kube/kinds.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { TOKEN_KEYS } from "../../src/models/source/source.ts";

/** Headers with the credential; none where the Model names no Secret. Rejects with SourceFailure. */
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
    if (kind === "notFound") {
      const remedy = {
        summary: "create it with the key HF_TOKEN (or token)",
        command: `kubectl create secret generic ${name} -n ${metadata.namespace} --from-literal=HF_TOKEN=…`,
      };
      const error = new MetalbridgeError("SourceSecretInvalid", `${shown} does not exist`, remedy);
      throw new SourceFailure(error, false);
    }
    throw transient("SourceSecretInvalid", `${shown} could not be read: ${message}`);
  }
  const data = result.value.data ?? {};
  const key = TOKEN_KEYS.find((candidate) => data[candidate] !== undefined);
  if (key === undefined)
    throw permanent("SourceSecretInvalid", `${shown} has none of the keys ${TOKEN_KEYS.join(", ")}`);
  const token = Buffer.from(data[key] ?? "", "base64")
    .toString("utf8")
    .trim();
  if (!/^[\x21-\x7e]+$/.test(token))
    throw permanent(
      "SourceSecretInvalid",
      `${shown}: ${key} is empty or contains characters that a header must not contain`,
    );
  return { authorization: `Bearer ${token}` };
}
