/** Creates the namespaces that the controller needs. */

import { describeError } from "../../src/api/errors.ts";
import { NAMESPACE_HOSTS, NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import { NAMESPACES } from "../../src/kube/kinds.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { waitMs } from "../../src/kube/wait.ts";
import { backoffMs } from "../../src/util/backoff.ts";
import type { Clock, Log } from "../../src/util/ports.ts";

export interface NamespacePorts {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Resolves when both namespaces exist, and retries until then. Without permission, an administrator has to create them. */
export async function ensureNamespaces({ client, clock, log, signal }: NamespacePorts): Promise<void> {
  for (const name of [NAMESPACE_SYSTEM, NAMESPACE_HOSTS]) {
    let lastCode: string | undefined;
    for (let attempt = 1; !signal.aborted; attempt += 1) {
      const found = await client.get(NAMESPACES, { name });
      const result = found.ok ? found : await client.create(NAMESPACES, { metadata: { name } });
      if (result.ok || result.error.kind === "alreadyExists") break;
      const error = explainFailure(result.error);
      const text = `namespace ${name} cannot be created, retrying: ${describeError(error)}`;
      if (error.code !== lastCode) log.warn({ namespace: name, code: error.code }, text);
      lastCode = error.code;
      await waitMs(clock, backoffMs(attempt, { firstMs: 500, capMs: 15_000 }), signal);
    }
  }
}
