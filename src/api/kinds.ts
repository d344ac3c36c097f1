/** The six kinds of this API. */
import type { BackendRuntime } from "./backend-runtime.ts";
import { GROUP, VERSION } from "./group.ts";
import type { Host } from "./host.ts";
import type { HostJoinRequest } from "./host-join-request.ts";
import type { InferenceReplica } from "./inference-replica.ts";
import type { InferenceService } from "./inference-service/index.ts";
import type { ApiKind } from "./metadata.ts";
import type { Model } from "./model.ts";

export const MODELS = namespacedKind<Model>("Model");
export const INFERENCE_SERVICES = namespacedKind<InferenceService>("InferenceService");
export const INFERENCE_REPLICAS = namespacedKind<InferenceReplica>("InferenceReplica");
export const BACKEND_RUNTIMES: ApiKind<BackendRuntime> = {
  ...namespacedKind<BackendRuntime>("BackendRuntime"),
  namespaced: false,
};
export const HOSTS: ApiKind<Host> = { ...namespacedKind<Host>("Host"), namespaced: false };
export const HOST_JOIN_REQUESTS = namespacedKind<HostJoinRequest>("HostJoinRequest");

function namespacedKind<T>(kind: string): ApiKind<T> {
  return { group: GROUP, version: VERSION, plural: `${kind.toLowerCase()}s`, kind, namespaced: true };
}
