/** The option: reports on BackendRuntimes how their services use them, and publishes those of our own runtimes. */

import type { BackendRuntime } from "../../../src/api/backend-runtime.ts";
import { setCondition } from "../../../src/api/conditions.ts";
import { LABEL_BUILT_IN, MANAGER_BUILT_IN, MANAGER_CONTROLLER } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { BACKEND_RUNTIMES } from "../../../src/api/kinds.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { keyOf } from "../../../src/api/names.ts";
import { builtInBackends } from "../../../src/engines/built-in-backends.ts";
import type { Recheck } from "../../../src/kube/queue.ts";
import type { ApiFailure } from "../../../src/kube/types.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import { isSettled } from "../../frame/apply/failure.ts";
import { type RetryPorts, retryWrite } from "../../frame/namespaces.ts";
import type { Option } from "../../frame/option.ts";
import type { ControllerPorts } from "../../frame/ports.ts";
import { revisionOfBackend, usedBackend } from "../../frame/service/backend.ts";

export const backends: Option = {
  start: () => ({
    onLead: (leading) => void publishBuiltInBackends(leading),
    queue: "backends",
    lead: (ports) => ({
      pass: (name) => reconcileBackend(ports, name),
      handlers: { onBackend: (name) => ports.enqueue(name), onBackendMember: (name) => ports.enqueue(name) },
      keys: () => ports.watches.backendRuntimes.list().map(({ metadata }) => metadata.name),
    }),
  }),
};

const CONFLICT_RETRY_MS = 1_000;

/** Throws if only a retry can help. */
async function reconcileBackend(
  { client, clock, watches }: Pick<ControllerPorts, "client" | "clock" | "watches">,
  name: string,
): Promise<Recheck | undefined> {
  const runtime = watches.backendRuntimes.get(name);
  if (runtime === undefined || watches.backendsProblem() !== undefined) return undefined;
  const status = statusOfBackend(runtime, watches.servicesOfBackend.of(name), isoSeconds(clock.nowMs()));
  const object = { metadata: { name }, status } as BackendRuntime;
  const options = { manager: MANAGER_CONTROLLER, subresource: "status", current: runtime } as const;
  const result = await client.apply(BACKEND_RUNTIMES, object, options);
  const isWritten = isSettled(`write the status of BackendRuntime ${name}`, result);
  return isWritten ? undefined : { recheckAfterMs: CONFLICT_RETRY_MS };
}

const MAX_NAMED = 10;

/** `services` are those that name the BackendRuntime. A service that has rendered nothing yet begins with the current content. */
export function statusOfBackend(
  { metadata, spec, status }: BackendRuntime,
  services: readonly InferenceService[],
  nowIso: string,
): NonNullable<BackendRuntime["status"]> {
  const revision = revisionOfBackend(spec);
  const used = services.flatMap((service) =>
    isBeingDeleted(service)
      ? []
      : { key: keyOf(service.metadata), revision: usedBackend(service)?.revision ?? revision },
  );
  const outdated = used
    .filter((one) => one.revision !== revision)
    .map(({ key }) => key)
    .sort();
  const { isTrue, reason, message } = describe(used.length, outdated);
  const observedGeneration = metadata.generation;
  const update = { type: "ServicesUpdated", status: isTrue ? "True" : "False", reason, message } as const;
  return {
    reason,
    message,
    observedGeneration,
    services: used.length,
    updatedServices: used.length - outdated.length,
    revision,
    conditions: setCondition(status?.conditions, { ...update, observedGeneration }, nowIso),
  };
}

function describe(services: number, outdated: readonly string[]) {
  if (services === 0) return { isTrue: true, reason: "NotUsed", message: "no service uses it" };
  const count = `${services - outdated.length} of ${services} services use the current content`;
  if (outdated.length === 0) return { isTrue: true, reason: "AllUpdated", message: count };
  const more = outdated.length > MAX_NAMED ? ` and ${outdated.length - MAX_NAMED} more` : "";
  const names = `${outdated.slice(0, MAX_NAMED).join(", ")}${more}`;
  const message = `${count}; outdated: ${names}. Update one: metalbridge rollout restart SERVICE -n NAMESPACE`;
  return { isTrue: false, reason: "ServicesOutdated", message };
}

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
