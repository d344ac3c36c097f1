/** The objects in the cluster that make up a host's identity, written and removed by an administrator. */
import { POLICY_NAMES } from "../../src/api/access/policies.ts";
import { hostAccess, hostRoleName, joinSecretName } from "../../src/api/access/roles.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { NAMESPACE_HOSTS } from "../../src/api/group.ts";
import {
  ADMISSION_POLICY_BINDINGS,
  CLUSTER_ROLE_BINDINGS,
  CLUSTER_ROLES,
  LEASES,
  NAMESPACES,
  ROLE_BINDINGS,
  ROLES,
  SECRETS,
  SERVICE_ACCOUNTS,
} from "../../src/kube/kinds.ts";
import type { ApiFailure, ApiResult, Kind, KubeObject, ObjectRef } from "../../src/kube/types.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { type Attempt, explainAttempt } from "../cluster/failure.ts";
import { listAll } from "../cluster/find.ts";

const MANAGER = "metalbridge-host-add";
const KINDS = [SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS];

/** Throws HostPoliciesMissing: without them a host's credential would reach every host. */
export async function requirePolicies(cluster: Cluster): Promise<void> {
  const [bindings, roles] = await Promise.all([
    listAll(cluster, ADMISSION_POLICY_BINDINGS),
    listAll(cluster, CLUSTER_ROLES, { fieldSelector: "metadata.name=metalbridge-agent" }),
  ]);
  const found = new Set(bindings.map(({ metadata }) => metadata.name));
  const missing = POLICY_NAMES.filter((name) => !found.has(name)).map((name) => `admission policy ${name}`);
  if (roles.length === 0) missing.push("ClusterRole metalbridge-agent");
  if (missing.length > 0) throw new MetalbridgeError("HostPoliciesMissing", `missing: ${missing.join(", ")}`);
}

/** Account, Role, bindings and Lease of a host; those of an earlier version are replaced. */
export async function writeAccess(cluster: Cluster, host: string): Promise<void> {
  const { client } = cluster;
  const namespace = { metadata: { name: NAMESPACE_HOSTS } };
  const made = await client.create(NAMESPACES, namespace);
  if (!made.ok && made.error.kind !== "alreadyExists")
    throw explainAttempt({ verb: "create", kind: NAMESPACES, name: NAMESPACE_HOSTS }, made.error);
  for (const object of hostAccess(host)) {
    const kind = KINDS.find((candidate) => candidate.kind === object.kind);
    if (kind !== undefined) await writeOne(cluster, kind, object as KubeObject);
  }
  // Without a holder it is free; the agent takes it.
  const lease = { metadata: { name: host, namespace: NAMESPACE_HOSTS }, spec: {} };
  const free = await client.create(LEASES, lease);
  if (!free.ok && free.error.kind !== "alreadyExists")
    throw explainAttempt({ verb: "create", kind: LEASES, name: host }, free.error);
}

/**
 * Ends what the host could do: rights first, so that an agent that still runs writes nothing again, then the account.
 * The answer says what was there.
 */
export async function removeAccess(cluster: Cluster, host: string): Promise<readonly string[]> {
  const name = hostRoleName(host);
  const namespace = NAMESPACE_HOSTS;
  const removals: readonly [Kind<KubeObject>, ObjectRef][] = [
    [CLUSTER_ROLE_BINDINGS, { name }],
    [ROLE_BINDINGS, { name, namespace }],
    [SERVICE_ACCOUNTS, { name: host, namespace }],
    [ROLES, { name, namespace }],
    [SECRETS, { name: joinSecretName(host), namespace }],
    [LEASES, { name: host, namespace }],
  ];
  const removed: string[] = [];
  for (const [kind, ref] of removals)
    if (await removeOne(cluster, kind, ref)) removed.push(`${kind.kind} ${ref.name}`);
  return removed;
}

/** A new Secret in place of the old one, whose token ends with it. The answer is its uid. */
export async function renewJoinSecret(cluster: Cluster, host: string): Promise<string> {
  const ref = { name: joinSecretName(host), namespace: NAMESPACE_HOSTS };
  await removeOne(cluster, SECRETS, ref);
  const made = await cluster.client.create(SECRETS, { metadata: ref });
  return need({ verb: "create", kind: SECRETS, ...ref }, made).metadata.uid ?? "";
}

/** True if it was there. */
export async function removeOne(
  { client }: Cluster,
  kind: Kind<KubeObject>,
  ref: ObjectRef,
): Promise<boolean> {
  const result = await client.remove(kind, ref);
  if (!result.ok && result.error.kind !== "notFound")
    throw explainAttempt({ verb: "delete", kind, ...ref }, result.error);
  return result.ok;
}

/** The value, or the failure explained. */
export function need<T>(attempt: Attempt, result: ApiResult<T>): T {
  if (result.ok) return result.value;
  throw explainAttempt(attempt, result.error);
}

async function writeOne(cluster: Cluster, kind: Kind<KubeObject>, object: KubeObject): Promise<void> {
  const { client } = cluster;
  const { name, namespace } = object.metadata;
  let applied = await client.apply(kind, object, { manager: MANAGER });
  // A binding of an earlier version leads to another role, and that cannot be changed.
  if (!applied.ok && isOtherRole(applied.error)) {
    await removeOne(cluster, kind, { name, namespace });
    applied = await client.apply(kind, object, { manager: MANAGER });
  }
  need({ verb: "patch", kind, name, namespace }, applied);
}

function isOtherRole({ kind, message }: ApiFailure): boolean {
  return kind === "invalid" && message.includes("roleRef");
}
