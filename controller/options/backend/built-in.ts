/** Publishes our own runtimes as BackendRuntimes. Helm could not: it refuses objects of kinds that the same release installs. */
import { describeError } from "../../../src/api/errors.ts";
import { LABEL_BUILT_IN, MANAGER_BUILT_IN } from "../../../src/api/group.ts";
import { BACKEND_RUNTIMES } from "../../../src/api/kinds.ts";
import { builtInBackends } from "../../../src/engines/built-in-backends.ts";
import { explainFailure } from "../../../src/kube/errors.ts";
import type { ApiResult, KubeClient } from "../../../src/kube/types.ts";
import { waitMs } from "../../../src/kube/wait.ts";
import { backoffMs } from "../../../src/util/backoff.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";

export interface BuiltInPorts {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/**
 * Resolves when all of them are as in this version, and retries until then. What a user has changed in one is restored; an object
 * without our label is the user's own, and stays.
 */
export async function publishBuiltInBackends(ports: BuiltInPorts): Promise<void> {
  const { clock, log, signal } = ports;
  let lastCode: string | undefined;
  for (let attempt = 1; !signal.aborted; attempt += 1) {
    const result = await publishAll(ports);
    if (result.ok) return;
    const error = explainFailure(result.error);
    const text = `built-in BackendRuntimes cannot be published, retrying: ${describeError(error)}`;
    if (error.code !== lastCode) log.warn({ code: error.code }, text);
    lastCode = error.code;
    await waitMs(clock, backoffMs(attempt, { firstMs: 500, capMs: 60_000 }), signal);
  }
}

async function publishAll({ client, log }: BuiltInPorts): Promise<ApiResult<unknown>> {
  const listed = await client.list(BACKEND_RUNTIMES);
  if (!listed.ok) return listed;
  const byName = new Map(listed.value.items.map((one) => [one.metadata.name, one]));
  let result: ApiResult<unknown> = listed;
  for (const object of builtInBackends()) {
    const { name } = object.metadata;
    const current = byName.get(name);
    if (current !== undefined && current.metadata.labels?.[LABEL_BUILT_IN] !== "true") {
      log.info({ backendRuntime: name }, "a BackendRuntime of a user has the name of a built-in one");
      continue;
    }
    const applied = await client.apply(BACKEND_RUNTIMES, object, { manager: MANAGER_BUILT_IN, current });
    if (!applied.ok) result = applied;
  }
  return result;
}
