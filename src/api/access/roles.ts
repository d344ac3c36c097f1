/** What each identity may do: the role that all agents share, the objects of one host, the roles of users. */
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

/** The label of objects that `metalbridge host add` makes; `host remove` finds by name, people by label. */
const MANAGED = { "app.kubernetes.io/managed-by": "metalbridge" };

/** Reads are of all hosts, since RBAC knows no labels; the admission policies narrow the writes. */
const agentRules: readonly Rule[] = [
  rule(GROUP, ["inferencereplicas"], "get list watch patch"),
  rule(GROUP, ["inferencereplicas/status", "hosts/status"], "patch"),
  rule(GROUP, ["hosts"], "list watch"),
  rule("discovery.k8s.io", ["endpointslices"], "get list watch patch"),
  rule("events.k8s.io", ["events"], "create patch"),
];

const viewRules: readonly Rule[] = [
  rule(GROUP, ["models", "inferenceservices", "inferencereplicas"], "get list watch"),
];

const editRules: readonly Rule[] = [
  rule(GROUP, ["models", "inferenceservices"], "create update patch delete deletecollection"),
  rule(GROUP, ["inferenceservices/scale"], "get update patch"),
  // To restart one engine: its replica is drained and replaced.
  rule(GROUP, ["inferencereplicas"], "delete"),
];

const adminRules: readonly Rule[] = [rule(GROUP, ["inferencereplicas"], "deletecollection")];

/** Cluster-wide roles: of every agent, and those that extend the built-in view, edit and admin. */
export function sharedRoles(): readonly AccessObject[] {
  return [
    {
      apiVersion: RBAC,
      kind: "ClusterRole",
      metadata: { name: AGENT_ROLE },
      rules: agentRules,
    } as AccessObject,
    ...(
      [
        ["view", viewRules],
        ["edit", editRules],
        ["admin", adminRules],
      ] as const
    ).map(
      ([builtIn, rules]) =>
        ({
          apiVersion: RBAC,
          kind: "ClusterRole",
          metadata: {
            name: `metalbridge-aggregate-to-${builtIn}`,
            labels: { [`rbac.authorization.k8s.io/aggregate-to-${builtIn}`]: "true" },
          },
          rules,
        }) as AccessObject,
    ),
  ];
}

/**
 * The Secret that a join token is bound to: with it the token ends. `generation` is random, so that only who has the join
 * token of one `host add` can name the Secrets of it.
 */
export function joinSecretName(host: string, generation: string): string {
  return `${JOIN_PREFIX}${host}.${generation}`;
}

/** The Secret that all tokens of a host are bound to which were issued with one join token. */
export function credentialSecretName(host: string, generation: string): string {
  return `${CREDENTIAL_SECRET_PREFIX}${host}.${generation}`;
}

/** The `host add` that created the Secret of a join token; undefined for any other name. */
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
        // A creation has no name for RBAC; the admission policy has it.
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
  const about = { apiGroups: [group], resources, verbs: verbs.split(" ") };
  return resourceNames === undefined ? about : { ...about, resourceNames };
}
