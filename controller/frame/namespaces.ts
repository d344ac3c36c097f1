/** Creates the namespaces that the controller needs. */

import { describeError } from "../../src/api/errors.ts";
import { NAMESPACE_HOSTS, NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import { NAMESPACES } from "../../src/kube/kinds.ts";
import type { ApiFailure, KubeClient } from "../../src/kube/types.ts";
import { waitMs } from "../../src/kube/wait.ts";
import { backoffMs } from "../../src/util/backoff.ts";
import type { Clock, Log } from "../../src/util/ports.ts";

export interface RetryPorts {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Resolves when both namespaces exist, and retries until then. Without permission, an administrator has to create them. */
export async function ensureNamespaces(ports: RetryPorts): Promise<void> {
  const { client } = ports;
  for (const name of [NAMESPACE_SYSTEM, NAMESPACE_HOSTS])
    await retryWrite(ports, `namespace ${name} cannot be created`, 15_000, async () => {
      const found = await client.get(NAMESPACES, { name });
      const result = found.ok ? found : await client.create(NAMESPACES, { metadata: { name } });
      return result.ok || result.error.kind === "alreadyExists" ? undefined : result.error;
    });
}

/** Resolves once `write` returns no failure. Logs each kind of failure once. */
export async function retryWrite(
  { clock, log, signal }: RetryPorts,
  what: string,
  capMs: number,
  write: () => Promise<ApiFailure | undefined>,
): Promise<void> {
  let lastCode: string | undefined;
  for (let attempt = 1; !signal.aborted; attempt += 1) {
    const failure = await write();
    if (failure === undefined) return;
    const error = explainFailure(failure);
    if (error.code !== lastCode) log.warn({ code: error.code }, `${what}, retrying: ${describeError(error)}`);
    lastCode = error.code;
    await waitMs(clock, backoffMs(attempt, { firstMs: 500, capMs }), signal);
  }
}
