/** Objects that the verbs look at, made through the real API server. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import type { Kind, KubeClient, KubeObject } from "../../src/kube/types.ts";
import { must } from "../bed/must.ts";
import { sharedCluster, type TestCluster } from "../cluster/cluster.ts";
import { manifest, withFields } from "../fixtures/manifests.ts";

export interface Desk extends AsyncDisposable {
  readonly cluster: TestCluster;
  readonly client: KubeClient;
  readonly kubeconfig: string;
  readonly namespace: string;
  /** A Host of a name that no other test has; removed with the desk. */
  readonly host: (fields?: Readonly<Record<string, unknown>>) => Promise<string>;
  readonly service: (name: string, fields?: Readonly<Record<string, unknown>>) => Promise<void>;
  readonly replica: (name: string, host: string, status?: object) => Promise<InferenceReplica>;
  /** Writes status as the part would that owns it. */
  readonly status: <T extends KubeObject>(kind: Kind<T>, name: string, status: object) => Promise<T>;
}

export async function openDesk(cluster: TestCluster = sharedCluster()): Promise<Desk> {
  const namespace = await cluster.namespace();
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  const client = createClient(connection);
  const hosts: string[] = [];
  const { objects } = cluster;
  const status: Desk["status"] = async (kind, name, value) => {
    const path = "/status";
    const place = kind.namespaced ? { namespace: namespace.name } : {};
    const operations = [{ op: "add" as const, path, value }];
    return must(await client.jsonPatch(kind, { name, ...place }, operations, { subresource: "status" }));
  };
  return {
    cluster,
    client,
    status,
    kubeconfig: cluster.kubeconfig,
    namespace: namespace.name,
    host: async (fields = {}) => {
      const name = `h-${namespace.name}-${hosts.length}`;
      hosts.push(name);
      await objects.create(withFields(manifest("Host", name), fields));
      return name;
    },
    service: async (name, fields = {}) => {
      await objects.create(withFields(manifest("InferenceService", name, namespace.name), fields));
    },
    replica: async (name, host, value) => {
      const replica = manifest("InferenceReplica", name, namespace.name);
      await objects.create(withFields(replica, { "spec.template.hostName": host }));
      if (value !== undefined) await status(INFERENCE_REPLICAS, name, value);
      return must(await client.get(INFERENCE_REPLICAS, { name, namespace: namespace.name }));
    },
    [Symbol.asyncDispose]: async () => {
      connection.close();
      // Their names are unique: a leftover does no harm.
      for (const host of hosts) await objects.startRemoval("", `host/${host}`).catch(() => {});
      // A private control plane has no controller that empties a deleted namespace.
      for (const kind of ["isvc", "irep", "mdl"])
        await objects.startRemoval(namespace.name, kind).catch(() => {});
      await namespace[Symbol.asyncDispose]();
    },
  };
}
