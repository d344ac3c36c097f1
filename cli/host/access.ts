/** The objects in the cluster that make up a host's identity, written and removed by an administrator. */
import { POLICY_NAMES } from "../../src/api/access/host-policies.ts";
import { hostRoleName } from "../../src/api/access/roles.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { LABEL_HOST, NAMESPACE_HOSTS } from "../../src/api/group.ts";
import type { AccessResult } from "../../src/kube/host-access.ts";
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
import type { Kind, KubeObject, ObjectRef } from "../../src/kube/types.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { explainAttempt } from "../cluster/failure.ts";
import { listAll } from "../cluster/find.ts";

/** Throws HostPoliciesMissing. Without the policies, the credential of one host would have access to all hosts. */
export async function requirePolicies(cluster: Cluster, others: readonly string[] = []): Promise<void> {
  const [bindings, roles] = await Promise.all([
    listAll(cluster, ADMISSION_POLICY_BINDINGS),
    listAll(cluster, CLUSTER_ROLES, { fieldSelector: "metadata.name=metalbridge-agent" }),
  ]);
  const found = new Set(bindings.map(({ metadata }) => metadata.name));
  const missing = [...POLICY_NAMES, ...others]
    .filter((name) => !found.has(name))
    .map((name) => `admission policy ${name}`);
  if (roles.length === 0) missing.push("ClusterRole metalbridge-agent");
  if (missing.length > 0) throw new MetalbridgeError("HostPoliciesMissing", `missing: ${missing.join(", ")}`);
}

/** Creates a namespace for the accounts, Leases and Secrets of hosts, if it does not exist. */
export async function ensureNamespace({ client }: Cluster, name: string): Promise<void> {
  const made = await client.create(NAMESPACES, { metadata: { name } });
  if (!made.ok && made.error.kind !== "alreadyExists")
    throw explainAttempt({ verb: "create", kind: NAMESPACES, name }, made.error);
}

/** The value of a successful call. Throws the explained failure. */
export function unwrapAccessResult<T>(outcome: AccessResult<T>): T {
  if (outcome.ok) return outcome.value;
  throw explainAttempt(outcome.failed.attempt, outcome.failed.error);
}

/** The Secrets that the tokens of the host are bound to. */
export async function hostSecretsOf(cluster: Cluster, host: string): Promise<readonly ObjectRef[]> {
  const options = { namespace: NAMESPACE_HOSTS, labelSelector: `${LABEL_HOST}=${host}` };
  const found = await listAll(cluster, SECRETS, options);
  return found.map(({ metadata: { name } }) => ({ name, namespace: NAMESPACE_HOSTS }));
}

/**
 * Revokes the permissions first, so that a running agent cannot write objects again, then deletes the account. Returns the
 * objects that existed.
 */
export async function removeAccess(cluster: Cluster, host: string): Promise<readonly string[]> {
  const name = hostRoleName(host);
  const namespace = NAMESPACE_HOSTS;
  const removals: readonly [Kind<KubeObject>, ObjectRef][] = [
    [CLUSTER_ROLE_BINDINGS, { name }],
    [ROLE_BINDINGS, { name, namespace }],
    [SERVICE_ACCOUNTS, { name: host, namespace }],
    [ROLES, { name, namespace }],
    ...(await hostSecretsOf(cluster, host)).map((ref): [Kind<KubeObject>, ObjectRef] => [SECRETS, ref]),
    [LEASES, { name: host, namespace }],
  ];
  const removed: string[] = [];
  for (const [kind, ref] of removals)
    if (await removeOne(cluster, kind, ref)) removed.push(`${kind.kind} ${ref.name}`);
  return removed;
}

/** Deletes an object. False if it does not exist. */
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
