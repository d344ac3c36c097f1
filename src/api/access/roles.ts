/** RBAC objects: the role that all agents share, the objects of one host, and the roles of users. */
import { GROUP, LABEL_HOST, NAMESPACE_HOSTS } from "../group.ts";
import { CREDENTIAL_SECRET_PREFIX } from "./account.ts";
import type { AccessObject } from "./policy.ts";

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

const RBAC_GROUP = "rbac.authorization.k8s.io";
const RBAC = `${RBAC_GROUP}/v1`;
const AGENT_ROLE = "metalbridge-agent";
const JOIN_PREFIX = "metalbridge-join-";

/** Label of objects that `metalbridge host add` creates, for people; `host remove` finds them by name. */
const MANAGED = { "app.kubernetes.io/managed-by": "metalbridge" };

/** Agents may read the objects of all hosts, because RBAC cannot select by label. The admission policies restrict writes. */
const agentRules: readonly Rule[] = [
  rule(GROUP, ["inferencereplicas"], "get list watch patch"),
  rule(GROUP, ["inferencereplicas/status", "hosts/status"], "patch"),
  rule(GROUP, ["hosts"], "list watch"),
  rule("discovery.k8s.io", ["endpointslices"], "get list watch patch"),
  rule("events.k8s.io", ["events"], "create patch"),
];

const viewRules: readonly Rule[] = [
  rule(GROUP, ["models", "inferenceservices", "inferencereplicas"], "get list watch"),
  // Takes effect in ClusterRoleBindings only, because the kind is cluster-scoped. Changing one needs rights of its own.
  rule(GROUP, ["backendruntimes"], "get list watch"),
];

const editRules: readonly Rule[] = [
  rule(GROUP, ["models", "inferenceservices"], "create update patch delete deletecollection"),
  rule(GROUP, ["inferenceservices/scale"], "get update patch"),
  // Deleting a replica restarts its engine: the replica is drained and replaced.
  rule(GROUP, ["inferencereplicas"], "delete"),
];

const adminRules: readonly Rule[] = [rule(GROUP, ["inferencereplicas"], "deletecollection")];

/** ClusterRoles: the role of every agent, and those that extend the built-in roles view, edit and admin. */
export function sharedRoles(): readonly AccessObject[] {
  return [
    {
      apiVersion: RBAC,
      kind: "ClusterRole",
      metadata: { name: AGENT_ROLE },
      rules: agentRules,
    } as AccessObject,
    ...Object.entries({ view: viewRules, edit: editRules, admin: adminRules }).map(
      ([builtIn, rules]) =>
        ({
          apiVersion: RBAC,
          kind: "ClusterRole",
          metadata: {
            name: `metalbridge-aggregate-to-${builtIn}`,
            labels: { [`${RBAC_GROUP}/aggregate-to-${builtIn}`]: "true" },
          },
          rules,
        }) as AccessObject,
    ),
  ];
}

/**
 * The Secret that a join token is bound to: deleting it revokes the token. `generation` is random, so that only a machine with
 * the join token of a `host add` can name the Secrets of that `host add`.
 */
export function joinSecretName(host: string, generation: string): string {
  return `${JOIN_PREFIX}${host}.${generation}`;
}

/** The Secret to which all tokens of a host are bound that were issued with the same join token. */
export function credentialSecretName(host: string, generation: string): string {
  return `${CREDENTIAL_SECRET_PREFIX}${host}.${generation}`;
}

/** Generation in the name of a join token's Secret; undefined for any other name. */
export function generationOf(host: string, joinSecret: string): string | undefined {
  const prefix = joinSecretName(host, "");
  const generation = joinSecret.startsWith(prefix) ? joinSecret.slice(prefix.length) : "";
  return generation === "" ? undefined : generation;
}

/** Name of the Role, RoleBinding and ClusterRoleBinding of one host. */
export function hostRoleName(host: string): string {
  return `${AGENT_ROLE}-${host}`;
}

/** Account, Role and bindings of one host. */
export function hostAccess(host: string, generation: string): readonly AccessObject[] {
  const name = hostRoleName(host);
  const labels = { ...MANAGED, [LABEL_HOST]: host };
  const inHosts = { namespace: NAMESPACE_HOSTS, labels };
  const subjects = [{ kind: "ServiceAccount", name: host, namespace: NAMESPACE_HOSTS }];
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: host, ...inHosts } },
    {
      apiVersion: RBAC,
      kind: "Role",
      metadata: { name, ...inHosts },
      rules: [
        rule("coordination.k8s.io", ["leases"], "get update", [host]),
        // RBAC cannot restrict the name on create; the admission policy does.
        rule("coordination.k8s.io", ["leases"], "create"),
        rule("", ["serviceaccounts/token"], "create", [host]),
        rule("", ["secrets"], "delete", [joinSecretName(host, generation)]),
      ],
    },
    {
      apiVersion: RBAC,
      kind: "RoleBinding",
      metadata: { name, ...inHosts },
      subjects,
      roleRef: { apiGroup: RBAC_GROUP, kind: "Role", name },
    },
    {
      apiVersion: RBAC,
      kind: "ClusterRoleBinding",
      metadata: { name, labels },
      subjects,
      roleRef: { apiGroup: RBAC_GROUP, kind: "ClusterRole", name: AGENT_ROLE },
    },
  ] as AccessObject[];
}

function rule(
  group: string,
  resources: readonly string[],
  verbs: string,
  resourceNames?: readonly string[],
): Rule {
  const base = { apiGroups: [group], resources, verbs: verbs.split(" ") };
  return resourceNames === undefined ? base : { ...base, resourceNames };
}
