/** The five kinds of this API, as the client addresses them. */
import { GROUP, VERSION } from "./group.ts";
import type { Host } from "./host.ts";
import type { HostJoinRequest } from "./host-join-request.ts";
import type { InferenceReplica } from "./inference-replica.ts";
import type { InferenceService } from "./inference-service/index.ts";
import type { ApiKind } from "./metadata.ts";
import type { Model } from "./model.ts";

const group = GROUP;
const version = VERSION;

export const MODELS: ApiKind<Model> = { group, version, plural: "models", kind: "Model", namespaced: true };

export const INFERENCE_SERVICES: ApiKind<InferenceService> = {
  group,
  version,
  plural: "inferenceservices",
  kind: "InferenceService",
  namespaced: true,
};

export const INFERENCE_REPLICAS: ApiKind<InferenceReplica> = {
  group,
  version,
  plural: "inferencereplicas",
  kind: "InferenceReplica",
  namespaced: true,
};

export const HOSTS: ApiKind<Host> = { group, version, plural: "hosts", kind: "Host", namespaced: false };

export const HOST_JOIN_REQUESTS: ApiKind<HostJoinRequest> = {
  group,
  version,
  plural: "hostjoinrequests",
  kind: "HostJoinRequest",
  namespaced: true,
};
