/** A client that exists before the connection does, and that writes nothing while the host name is not ours. */
import type { ApiFailure, ApiResult, KubeClient } from "../../src/kube/types.ts";

export interface DeferredClient {
  readonly client: KubeClient;
  readonly connect: (real: KubeClient) => void;
  readonly setMayWrite: (mayWrite: boolean) => void;
}

const NOT_CONNECTED: ApiFailure = {
  kind: "unreachable",
  status: 0,
  reason: "NotConnected",
  message: "there is no connection to the API server yet",
};
const NOT_OURS: ApiFailure = {
  kind: "unavailable",
  status: 0,
  reason: "HostNameTaken",
  message: "another agent holds this host's name",
};

export function createDeferredClient(): DeferredClient {
  let real: KubeClient | undefined;
  let mayWrite = false;
  const reading = <T>(ask: (client: KubeClient) => Promise<ApiResult<T>>): Promise<ApiResult<T>> =>
    real === undefined ? Promise.resolve({ ok: false, error: NOT_CONNECTED }) : ask(real);
  const writing = <T>(ask: (client: KubeClient) => Promise<ApiResult<T>>): Promise<ApiResult<T>> =>
    mayWrite || real === undefined ? reading(ask) : Promise.resolve({ ok: false, error: NOT_OURS });
  return {
    client: {
      get: (kind, ref) => reading((client) => client.get(kind, ref)),
      list: (kind, options) => reading((client) => client.list(kind, options)),
      create: (kind, object, options) => writing((client) => client.create(kind, object, options)),
      update: (kind, object, options) => writing((client) => client.update(kind, object, options)),
      apply: (kind, object, options) => writing((client) => client.apply(kind, object, options)),
      jsonPatch: (kind, ref, operations, options) =>
        writing((client) => client.jsonPatch(kind, ref, operations, options)),
      remove: (kind, ref, options) => writing((client) => client.remove(kind, ref, options)),
    },
    connect: (client) => {
      real = client;
    },
    setMayWrite: (may) => {
      mayWrite = may;
    },
  };
}
