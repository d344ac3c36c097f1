/** The objects in the cluster that make up a host's identity, written and removed by an administrator. */
import { POLICY_NAMES } from "../../src/api/access/host-policies.ts";
import {
  credentialSecretName,
  hostAccess,
  hostRoleName,
  joinSecretName,
} from "../../src/api/access/roles.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { LABEL_HOST, NAMESPACE_HOSTS } from "../../src/api/group.ts";
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

/** Account, Role, bindings, Lease and Secrets of a host; those of an earlier version or `host add` are replaced. */
export async function writeAccess(cluster: Cluster, host: string, generation: string): Promise<void> {
  const { client } = cluster;
  const namespace = { metadata: { name: NAMESPACE_HOSTS } };
  const made = await client.create(NAMESPACES, namespace);
  if (!made.ok && made.error.kind !== "alreadyExists")
    throw explainAttempt({ verb: "create", kind: NAMESPACES, name: NAMESPACE_HOSTS }, made.error);
  for (const object of hostAccess(host, generation)) {
    const kind = KINDS.find((candidate) => candidate.kind === object.kind);
    if (kind !== undefined) await writeOne(cluster, kind, object as KubeObject);
  }
  // Without a holder it is free; the agent takes it.
  await createUnlessThere(cluster, LEASES, {
    metadata: { name: host, namespace: NAMESPACE_HOSTS },
    spec: {},
  } as KubeObject);
  const names = [joinSecretName(host, generation), credentialSecretName(host, generation)];
  for (const { name } of await secretsOf(cluster, host))
    if (!names.includes(name)) await removeOne(cluster, SECRETS, { name, namespace: NAMESPACE_HOSTS });
  for (const name of names)
    await createUnlessThere(cluster, SECRETS, {
      metadata: { name, namespace: NAMESPACE_HOSTS, labels: { [LABEL_HOST]: host } },
    });
}

/** Which tokens of the host are bound to. */
export async function secretsOf(cluster: Cluster, host: string): Promise<readonly ObjectRef[]> {
  const options = { namespace: NAMESPACE_HOSTS, labelSelector: `${LABEL_HOST}=${host}` };
  const found = await listAll(cluster, SECRETS, options);
  return found.map(({ metadata: { name } }) => ({ name, namespace: NAMESPACE_HOSTS }));
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
    ...(await secretsOf(cluster, host)).map((ref): [Kind<KubeObject>, ObjectRef] => [SECRETS, ref]),
    [LEASES, { name: host, namespace }],
  ];
  const removed: string[] = [];
  for (const [kind, ref] of removals)
    if (await removeOne(cluster, kind, ref)) removed.push(`${kind.kind} ${ref.name}`);
  return removed;
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

async function createUnlessThere(
  { client }: Cluster,
  kind: Kind<KubeObject>,
  object: KubeObject,
): Promise<void> {
  const made = await client.create(kind, object);
  if (made.ok || made.error.kind === "alreadyExists") return;
  throw explainAttempt({ verb: "create", kind, ...object.metadata }, made.error);
}

function isOtherRole({ kind, message }: ApiFailure): boolean {
  return kind === "invalid" && message.includes("roleRef");
}
