/** The part of a service's status about its BackendRuntime. Pure. */

import { withConditions } from "../../src/api/conditions.ts";
import type { InferenceService, InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import type { Blocked } from "../../src/capacity/resolve.ts";
import { type ChosenBackend, usedBackend } from "../frame/service/backend.ts";

const TYPE = "BackendRuntimeCurrent";

interface BackendInUse {
  readonly service: InferenceService;
  readonly backend: ChosenBackend | undefined;
  /** Set if the content of BackendRuntimes cannot be read. */
  readonly blocked?: Blocked | undefined;
}

/** Adds the revision in use, and condition BackendRuntimeCurrent, to a service that names a BackendRuntime. */
export function withBackendStatus(
  { service, backend, blocked }: BackendInUse,
  status: InferenceServiceStatus,
  nowIso: string,
): InferenceServiceStatus {
  if (service.spec.backendRuntime === undefined) return status;
  const own = { type: TYPE, ...describe(service, backend, blocked) };
  const conditions = withConditions(service, status.conditions, [own], nowIso);
  return { ...status, backendRuntime: inUse(service, backend), conditions };
}

function inUse(service: InferenceService, backend: ChosenBackend | undefined) {
  if (backend === undefined) return usedBackend(service);
  const { name, revision } = backend;
  return { name, revision };
}

function describe(
  { metadata, spec }: InferenceService,
  backend: ChosenBackend | undefined,
  blocked?: Blocked,
) {
  if (blocked !== undefined)
    return { status: "Unknown" as const, reason: blocked.code, message: blocked.message };
  const name = `BackendRuntime ${spec.backendRuntime?.name}`;
  if (backend === undefined)
    return notFound(`${name} does not exist; create it, or correct spec.backendRuntime.name`);
  const revision = `revision ${backend.revision}`;
  switch (backend.is) {
    case "Deleted":
      return notFound(
        `${name} was deleted; the service keeps the stored ${revision}. Create it again, or name another one`,
      );
    case "Outdated": {
      const command = `metalbridge rollout restart ${metadata.name} -n ${metadata.namespace}`;
      const message = `${name} has changed; the service keeps ${revision} until its spec changes, or: ${command}`;
      return { status: "False" as const, reason: "UpdatePending", message };
    }
    case "Current":
      return { status: "True" as const, reason: "CurrentRevision", message: `${name}, ${revision}` };
    default:
      return backend.is satisfies never;
  }
}

function notFound(message: string) {
  return { status: "False" as const, reason: "BackendRuntimeNotFound", message };
}
