/** Accounts of people, each with the roles that such a person has. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseAllDocuments } from "yaml";
import { packageRoot } from "../../local/package-root.ts";
import { GROUP } from "../../src/api/group.ts";
import { connect, type KubeConnection } from "../../src/kube/client/connect.ts";
import { writeAccountKubeconfig } from "../bed/identity.ts";
import type { TestCluster } from "../cluster/cluster.ts";
import { get, NAMESPACE, OURS } from "./requests.ts";

export interface UserConnections<W extends string> {
  readonly of: (who: W) => KubeConnection;
  readonly close: () => void;
}

const RBAC_GROUP = "rbac.authorization.k8s.io";
const OURS_ONLY = `ours-${process.pid}`;
const VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"];

const ACCOUNTS = {
  "a tenant with edit": { name: "tenant", clusterRole: "edit", namespace: NAMESPACE },
  "a tenant with our kinds only": { name: "narrow", clusterRole: OURS_ONLY, namespace: NAMESPACE },
  "an operator": { name: "operator", clusterRole: "metalbridge-operator", namespace: undefined },
} as const;

export type Who = keyof typeof ACCOUNTS;

/** Resolves once the API server grants the rights. */
export async function asUsers(
  { kubeconfig, objects }: TestCluster,
  folder: string,
): Promise<UserConnections<Who>> {
  const operator = await readFile(path.join(packageRoot(), "examples/rbac/operator.yaml"), "utf8");
  await objects.apply(
    ...parseAllDocuments(operator).map((document) => document.toJS()),
    { apiVersion: `${RBAC_GROUP}/v1`, kind: "ClusterRole", ...ofOurKinds() },
    ...Object.values(ACCOUNTS).flatMap(objectsOf),
  );
  const connections = new Map<Who, KubeConnection>();
  for (const who of Object.keys(ACCOUNTS) as Who[]) {
    const file = path.join(folder, ACCOUNTS[who].name);
    await writeAccountKubeconfig({ kubeconfig }, { name: ACCOUNTS[who].name, namespace: NAMESPACE, file });
    const connection = await connect({ kubeconfigPath: file });
    connections.set(who, connection);
    await untilGranted(connection, who);
  }
  return {
    of: (who) => {
      const connection = connections.get(who);
      if (connection === undefined) throw new Error(who);
      return connection;
    },
    close: () => {
      for (const connection of connections.values()) connection.close();
    },
  };
}

/** A role as a cluster with many teams gives it: services and Models, and one Secret by name. */
function ofOurKinds(): object {
  const rules = [
    { apiGroups: [GROUP], resources: ["models", "inferenceservices"], verbs: VERBS },
    { apiGroups: [""], resources: ["secrets"], resourceNames: ["own"], verbs: ["get"] },
  ];
  return { metadata: { name: OURS_ONLY }, rules };
}

function objectsOf({ name, clusterRole, namespace }: (typeof ACCOUNTS)[Who]): readonly object[] {
  const kind = namespace === undefined ? "ClusterRoleBinding" : "RoleBinding";
  const metadata = namespace === undefined ? { name: `${NAMESPACE}-${name}` } : { name, namespace };
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name, namespace: NAMESPACE } },
    {
      apiVersion: `${RBAC_GROUP}/v1`,
      kind,
      metadata,
      subjects: [{ kind: "ServiceAccount", name, namespace: NAMESPACE }],
      roleRef: { apiGroup: RBAC_GROUP, kind: "ClusterRole", name: clusterRole },
    },
  ];
}

/** The roles of an operator have no read: a write that changes nothing says it. */
async function untilGranted(connection: KubeConnection, who: Who): Promise<void> {
  const services = `${OURS}/namespaces/${NAMESPACE}/inferenceservices`;
  const probe =
    who === "an operator"
      ? {
          method: "PATCH" as const,
          path: `${services}/chat?dryRun=All`,
          contentType: "application/merge-patch+json",
          body: "{}",
        }
      : get(services);
  for (let left = 600; left > 0; left -= 1) {
    if ((await connection.request({ ...probe, timeoutMs: 10_000 })).ok) return;
    await pause(100);
  }
  throw new Error(`the API server grants ${who} no rights`);
}
