/** API keys of engines, read from the Secrets of their services on demand. */
import { SECRETS } from "../../src/kube/kinds.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { ServedModel } from "../models/served-model.ts";
import type { Refusal } from "./dialect.ts";

/** Keys are cached for this long. After a rotation, the gate accepts the previous key for five minutes. */
const REUSE_MS = 60_000;

interface Read {
  readonly at: number;
  readonly result: Promise<string | Refusal>;
}

export type ReadEngineKey = (model: ServedModel) => Promise<string | undefined | Refusal>;

export function createEngineKeys(client: Pick<KubeClient, "get">, clock: Clock): ReadEngineKey {
  const reads = new Map<string, Read>();
  return async ({ namespace, key: service, engineKey }) => {
    if (engineKey === undefined) return undefined;
    const { secret, key } = engineKey;
    const id = `${namespace}/${secret}/${key}`;
    const known = reads.get(id);
    if (known !== undefined && clock.monotonicMs() - known.at < REUSE_MS) return known.result;
    const result = readKey(client, { namespace, name: secret }, key, service);
    reads.set(id, { at: clock.monotonicMs(), result });
    if (typeof (await result) === "object") reads.delete(id);
    return result;
  };
}

async function readKey(
  client: Pick<KubeClient, "get">,
  ref: { readonly namespace: string; readonly name: string },
  key: string,
  service: string,
): Promise<string | Refusal> {
  const read = await client.get(SECRETS, ref);
  const value = read.ok ? read.value.data?.[key] : undefined;
  if (value !== undefined) return Buffer.from(value, "base64").toString().trim();
  const why = read.ok
    ? `its Secret has no key ${key}`
    : read.error.kind === "forbidden"
      ? "the gateway may not read its Secret: grant it get on the Secret in that namespace"
      : "its Secret cannot be read";
  return {
    code: "model_unavailable",
    message: `${service} requires an API key, and ${why}.`,
    retryAfterSeconds: 5,
    service,
  };
}
