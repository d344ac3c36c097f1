/** A host with its own account and roles, as `metalbridge host add` makes them. */
import { hostAccess } from "../../src/api/access/roles.ts";
import { NAMESPACE_HOSTS } from "../../src/api/group.ts";
import type { TestCluster } from "../cluster/cluster.ts";
import { writeAccountKubeconfig } from "../docs/agent-rights.ts";

/** Makes what a host needs to act in its own name, and writes its kubeconfig. */
export async function giveIdentity(
  cluster: Pick<TestCluster, "kubeconfig" | "kubectl">,
  host: string,
  file: string,
): Promise<void> {
  const list = { apiVersion: "v1", kind: "List", items: hostAccess(host) };
  await cluster.kubectl(["apply", "-f", "-"], { input: JSON.stringify(list) });
  await writeAccountKubeconfig(cluster, { name: host, namespace: NAMESPACE_HOSTS, file });
}
