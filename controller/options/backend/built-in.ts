/** Publishes our own runtimes as BackendRuntimes. Helm could not: it refuses objects of kinds that the same release installs. */
import { LABEL_BUILT_IN, MANAGER_BUILT_IN } from "../../../src/api/group.ts";
import { BACKEND_RUNTIMES } from "../../../src/api/kinds.ts";
import { builtInBackends } from "../../../src/engines/built-in-backends.ts";
import type { ApiFailure } from "../../../src/kube/types.ts";
import { type RetryPorts, retryWrite } from "../../frame/namespaces.ts";

/**
 * Resolves when all of them are as in this version, and retries until then. What a user has changed in one is restored; an object
 * without our label is the user's own, and stays.
 */
export async function publishBuiltInBackends(ports: RetryPorts): Promise<void> {
  const what = "built-in BackendRuntimes cannot be published";
  await retryWrite(ports, what, 60_000, () => publishAll(ports));
}

async function publishAll({ client, log }: RetryPorts): Promise<ApiFailure | undefined> {
  const listed = await client.list(BACKEND_RUNTIMES);
  if (!listed.ok) return listed.error;
  const byName = new Map(listed.value.items.map((one) => [one.metadata.name, one]));
  let failure: ApiFailure | undefined;
  for (const object of builtInBackends()) {
    const { name } = object.metadata;
    const current = byName.get(name);
    if (current !== undefined && current.metadata.labels?.[LABEL_BUILT_IN] !== "true") {
      log.info({ backendRuntime: name }, "a BackendRuntime of a user has the name of a built-in one");
      continue;
    }
    const applied = await client.apply(BACKEND_RUNTIMES, object, { manager: MANAGER_BUILT_IN, current });
    if (!applied.ok) failure = applied.error;
  }
  return failure;
}
