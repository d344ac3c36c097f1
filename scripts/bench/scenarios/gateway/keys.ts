/** Keys of the gateway, created without its command line. */

import { generateKey } from "../../../../cli/key/stored.ts";
import { NAMESPACE_SYSTEM } from "../../../../src/api/group.ts";
import { gatewayKeySchema } from "../../../../src/gateway/key.ts";
import { keySecret } from "../../../../src/gateway/key-secret.ts";
import { NAMESPACES, SECRETS } from "../../../../src/kube/kinds.ts";
import { must } from "../../../../test/bed/must.ts";
import type { Plane } from "../../beds/plane.ts";

/** Keys may use all services. Returns the header that presents the key. */
export async function createBenchKey(
  { client }: Pick<Plane, "client">,
  name: string,
  weight = 1,
): Promise<{ readonly authorization: string }> {
  const { text, hash } = generateKey(Date.now());
  const key = gatewayKeySchema.parse({ hashes: [hash], owner: name, scope: "all", weight });
  must(await client.create(SECRETS, keySecret(NAMESPACE_SYSTEM, name, key)));
  return { authorization: `Bearer ${text}` };
}

/** Where the Secrets of keys are. */
export async function createKeyNamespace({ client }: Pick<Plane, "client">): Promise<void> {
  const created = await client.create(NAMESPACES, { metadata: { name: NAMESPACE_SYSTEM } });
  if (!created.ok && created.error.kind !== "alreadyExists") must(created);
}
