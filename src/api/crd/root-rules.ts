/** Validation rules at the root of each kind. Only root rules can validate metadata.name. */
import { HOST_NAME_MAX, REPLICA_NAME_MAX, SERVICE_NAME_MAX } from "../names.ts";
import type { CelRule } from "./structural.ts";

export const modelRootRules: readonly CelRule[] = [];

export const serviceRootRules: readonly CelRule[] = [
  {
    rule: `size(self.metadata.name) <= ${SERVICE_NAME_MAX}`,
    message: `metadata.name of an InferenceService may have at most ${SERVICE_NAME_MAX} characters: Services and replicas are named after it`,
  },
  {
    rule: "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    message:
      "metadata.name of an InferenceService must start with a letter and hold only a-z, 0-9 and '-', no dots: it becomes the name of a Service",
  },
];

export const replicaRootRules: readonly CelRule[] = [
  {
    rule: `size(self.metadata.name) <= ${REPLICA_NAME_MAX} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')`,
    message: `metadata.name of an InferenceReplica must be a DNS label of at most ${REPLICA_NAME_MAX} characters that starts with a letter: it is used as a label value`,
  },
];

export const backendRuntimeRootRules: readonly CelRule[] = [
  {
    rule: "size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    message:
      "metadata.name of a BackendRuntime must be a DNS label of at most 63 characters (a-z, 0-9 and '-', no dots): hosts report it as the name of a runtime",
  },
];

export const hostRootRules: readonly CelRule[] = [
  {
    rule: `size(self.metadata.name) <= ${HOST_NAME_MAX} && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,
    message: `metadata.name of a Host must be a DNS label of at most ${HOST_NAME_MAX} characters (a-z, 0-9 and '-', no dots): it is used as a label value`,
  },
];

export const joinRequestRootRules: readonly CelRule[] = [
  {
    rule: "self.metadata.name.matches('^[0-9a-f]{64}$')",
    message:
      "metadata.name of a HostJoinRequest is the public X25519 key of the machine: 64 hexadecimal digits",
  },
];
