/** A verb's way to the API server: one connection, one client, one namespace. */
import { connect, type KubeConnection } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { loadKubeconfig } from "../../src/kube/client/kubeconfig.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { ClusterFlags } from "./flags.ts";

export interface Cluster {
  readonly client: KubeClient;
  readonly connection: KubeConnection;
  /** The one that was named, else that of the context, else `default`; as kubectl has it. */
  readonly namespace: string;
}

/** Lends a cluster to `use`; its sockets end with it. Rejects with MetalbridgeError where the kubeconfig cannot work. */
export async function withCluster<T>(
  verb: string,
  flags: ClusterFlags,
  use: (cluster: Cluster) => Promise<T>,
): Promise<T> {
  const source = { kubeconfigPath: flags.kubeconfig, context: flags.context };
  const namespace = flags.namespace ?? namespaceOfContext(source);
  const userAgent = `metalbridge-${verb}`;
  const connection = await connect({ ...source, userAgent });
  try {
    return await use({ client: createClient(connection, { userAgent }), connection, namespace });
  } finally {
    connection.close();
  }
}

/** As kubectl has it. */
export function namespaceOfContext(source: Parameters<typeof loadKubeconfig>[0]): string {
  const config = loadKubeconfig(source);
  const namespace = config.getContextObject(config.getCurrentContext())?.namespace;
  return namespace === undefined || namespace === "" ? "default" : namespace;
}
