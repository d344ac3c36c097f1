/** A client that writes nothing while another agent holds the host name. */
import type { ApiFailure, ApiResult, KubeClient } from "../../src/kube/types.ts";

const NOT_OURS: ApiFailure = {
  kind: "unavailable",
  status: 0,
  reason: "HostNameTaken",
  message: "another agent holds this host's name",
};

export function createHostClient(client: KubeClient, isNameOurs: () => boolean): KubeClient {
  const write = async <T>(send: () => Promise<ApiResult<T>>): Promise<ApiResult<T>> =>
    isNameOurs() ? send() : { ok: false, error: NOT_OURS };
  return {
    ...client,
    create: (kind, object, options) => write(() => client.create(kind, object, options)),
    update: (kind, object, options) => write(() => client.update(kind, object, options)),
    apply: (kind, object, options) => write(() => client.apply(kind, object, options)),
    jsonPatch: (kind, ref, operations, options) =>
      write(() => client.jsonPatch(kind, ref, operations, options)),
    remove: (kind, ref, options) => write(() => client.remove(kind, ref, options)),
  };
}
