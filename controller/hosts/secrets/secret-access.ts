/**
 * Gives each host permission to read the Secrets that its replicas name, and no others, by one Role per namespace and host. The
 * Role is created with the first such replica and removed with the last.
 */

import { LABEL_HOST, MANAGER_CONTROLLER, NAMESPACE_HOSTS } from "../../../src/api/group.ts";
import { type InferenceReplica, weightsOfTemplate } from "../../../src/api/inference-replica.ts";
import { keyOf } from "../../../src/api/names.ts";
import { prefetchOrders } from "../../../src/capacity/prefetch.ts";
import { ACCESS_REVIEWS, ROLE_BINDINGS, ROLES } from "../../../src/kube/kinds.ts";
import type { Role, RoleBinding } from "../../../src/kube/objects.ts";
import type { Recheck } from "../../../src/kube/queue.ts";
import type { ApiResult, Kind, KubeClient, KubeObject, Reflector } from "../../../src/kube/types.ts";
import type { WatchedReflector } from "../../../src/kube/watch/catch-up.ts";
import { ApiCallFailed } from "../../frame/apply/failure.ts";
import type { WatchOptions } from "../../frame/watches/contract.ts";
import type { Watches } from "../../frame/watches/watches.ts";

export interface SecretAccessOptions extends WatchOptions {
  readonly client: KubeClient;
  readonly watches: Pick<Watches, "replicasOfHost" | "hosts" | "prefetchedModels">;
  /** Called with `namespace/host` if its permissions may have to change. */
  readonly onChange: (key: string) => void;
}

export interface SecretAccess {
  /** One pass over `namespace/host`. */
  readonly reconcile: (key: string) => Promise<Recheck | undefined>;
  /** All keys that may need permissions. */
  readonly keys: () => readonly string[];
  readonly watches: () => readonly WatchedReflector[];
}

const LABEL_MANAGED_BY = "app.kubernetes.io/managed-by";
const RBAC_GROUP = "rbac.authorization.k8s.io";

const WITHOUT_ROLES =
  "this account may not list Roles, so hosts get no right to the Secrets that their replicas name; " +
  "with the chart: --set rbac.secrets=true";

/** The key `namespace/host` of a Role. */
export function accessKeyOf({ metadata, spec }: InferenceReplica): string {
  return keyOf({ namespace: metadata.namespace, name: spec.template.hostName });
}

/** Names of the Secrets that a replica's agent reads, sorted. Pure. */
export function replicaSecretsOf({ spec: { template } }: InferenceReplica): readonly string[] {
  const names = [
    ...weightsOfTemplate(template).map(({ secretRef }) => secretRef?.name),
    template.auth?.secretName,
    template.tls?.secretName,
    template.tls?.clientCASecretName,
  ];
  return [...new Set(names.filter((name) => name !== undefined))].sort();
}

/** Secrets of the Models that a host must prefetch, from the Models, because the host writes its own status. */
function prefetchSecrets(
  { hosts, prefetchedModels }: SecretAccessOptions["watches"],
  hostName: string,
): readonly { readonly namespace: string; readonly name: string }[] {
  const host = hosts.get(hostName);
  if (host === undefined) return [];
  return prefetchOrders(host, prefetchedModels.of("all")).flatMap(({ namespace, model }) =>
    model.secretRef === undefined ? [] : [{ namespace, name: model.secretRef.name }],
  );
}

/** Interval between checks whether permission for Roles was granted, while a host needs it. */
const PERMISSION_CHECK_MS = 3_000;

interface OwnWatches {
  readonly roles: Reflector<Role>;
  readonly bindings: Reflector<RoleBinding>;
}

/** Uses separate watches, so a controller without permission for Roles logs that once and does its other work. */
export async function startSecretAccess(options: SecretAccessOptions): Promise<SecretAccess> {
  const { watches, log } = options;
  let ours: OwnWatches | undefined;
  const start = onceGranted(options, (granted) => {
    ours = granted;
  });
  if ((await start()) === undefined) log.warn({ code: "ApiForbidden" }, WITHOUT_ROLES);
  return {
    keys: () => keysOf(watches),
    watches: () => (ours === undefined ? [] : [ours.roles, ours.bindings]),
    reconcile: async (key) => {
      const [namespace = "", host = ""] = key.split("/");
      const secrets = secretsAt(watches, namespace, host);
      if (ours === undefined && secrets.length === 0) return undefined;
      ours ??= await start();
      // Once permission is granted, the first lists enqueue every key.
      if (ours === undefined) return undefined;
      const { roles, bindings } = ours;
      // The first lists enqueue the keys of their objects.
      if (!roles.isSynced() || !bindings.isSynced()) return undefined;
      const at = `${namespace}/${roleName(host)}`;
      const current = { role: roles.get(at), binding: bindings.get(at) };
      await (secrets.length === 0
        ? removeAccess(options, current)
        : writeAccess(options, accessOf({ namespace, host, secrets }), current));
      return undefined;
    },
  };
}

/** Starts the watches once permission is granted. Until then one timer checks for it while a host needs it. */
function onceGranted(
  options: SecretAccessOptions,
  onGranted: (watches: OwnWatches) => void,
): () => Promise<OwnWatches | undefined> {
  const { watches, clock, signal } = options;
  let pending: Promise<OwnWatches | undefined> | undefined;
  let cancel: (() => void) | undefined;
  const check = async () => {
    const isGranted = await mayWatchRoles(options);
    if (signal.aborted) return undefined;
    if (isGranted) {
      const ours = { roles: watchOurs(options, ROLES), bindings: watchOurs(options, ROLE_BINDINGS) };
      onGranted(ours);
      return ours;
    }
    cancel = clock.after(PERMISSION_CHECK_MS, () => {
      pending = isNeeded(watches) ? check() : undefined;
    });
    return undefined;
  };
  signal.addEventListener("abort", () => cancel?.(), { once: true });
  return () => {
    pending ??= check();
    return pending;
  };
}

function isNeeded(watches: SecretAccessOptions["watches"]): boolean {
  return keysOf(watches).some((key) => {
    const [namespace = "", host = ""] = key.split("/");
    return secretsAt(watches, namespace, host).length > 0;
  });
}

function secretsAt(
  watches: SecretAccessOptions["watches"],
  namespace: string,
  host: string,
): readonly string[] {
  const replicas = watches.replicasOfHost.of(host).filter(({ metadata }) => metadata.namespace === namespace);
  const prefetched = prefetchSecrets(watches, host).filter((one) => one.namespace === namespace);
  const names = [...replicas.flatMap(replicaSecretsOf), ...prefetched.map(({ name }) => name)];
  return [...new Set(names)].sort();
}

/** Every `namespace/host` that may need a Secret. */
function keysOf(watches: SecretAccessOptions["watches"]): readonly string[] {
  const { replicasOfHost, hosts } = watches;
  const replicas = replicasOfHost.groups().flatMap((host) => replicasOfHost.of(host));
  const prefetched = hosts
    .list()
    .flatMap(({ metadata: { name } }) =>
      prefetchSecrets(watches, name).map(({ namespace }) => keyOf({ namespace, name })),
    );
  return [...new Set([...replicas.map(accessKeyOf), ...prefetched])];
}

/** Returns true if the API server does not respond, so that the watches find out. */
async function mayWatchRoles({ client }: SecretAccessOptions): Promise<boolean> {
  const resourceAttributes = { group: RBAC_GROUP, resource: ROLES.plural, verb: "list" };
  const review = await client.create(ACCESS_REVIEWS, {
    metadata: { name: "" },
    spec: { resourceAttributes },
  });
  return !review.ok || review.value.status?.allowed !== false;
}

interface Found {
  readonly role: Role | undefined;
  readonly binding: RoleBinding | undefined;
}

async function writeAccess(
  { client, log }: SecretAccessOptions,
  { role, binding }: { readonly role: Role; readonly binding: RoleBinding },
  current: Found,
): Promise<void> {
  const manager = MANAGER_CONTROLLER;
  const { name, namespace } = role.metadata;
  const wrote = expectOk(
    `apply Role ${name}`,
    await client.apply(ROLES, role, { manager, current: current.role }),
  );
  expectOk(
    `apply RoleBinding ${name}`,
    await client.apply(ROLE_BINDINGS, binding, { manager, current: current.binding }),
  );
  const secrets = role.rules?.[0]?.resourceNames;
  if (wrote.sent)
    log.info({ namespace, role: name, secrets }, "a host may get the Secrets that its replicas name");
}

async function removeAccess({ client, log }: SecretAccessOptions, { role, binding }: Found): Promise<void> {
  if (binding !== undefined) await remove(client, ROLE_BINDINGS, binding);
  if (role === undefined) return;
  await remove(client, ROLES, role);
  const { name, namespace } = role.metadata;
  log.info({ namespace, role: name }, "a host's right to Secrets is removed");
}

interface Access {
  readonly namespace: string;
  readonly host: string;
  readonly secrets: readonly string[];
}

function roleName(host: string): string {
  return `metalbridge-secrets-${host}`;
}

function accessOf({ namespace, host, secrets }: Access): {
  readonly role: Role;
  readonly binding: RoleBinding;
} {
  const name = roleName(host);
  const metadata = {
    name,
    namespace,
    labels: { [LABEL_MANAGED_BY]: MANAGER_CONTROLLER, [LABEL_HOST]: host },
  };
  const rule = { apiGroups: [""], resources: ["secrets"], resourceNames: [...secrets], verbs: ["get"] };
  return {
    role: { metadata, rules: [rule] },
    binding: {
      metadata,
      subjects: [{ kind: "ServiceAccount", name: host, namespace: NAMESPACE_HOSTS }],
      roleRef: { apiGroup: RBAC_GROUP, kind: "Role", name },
    },
  };
}

function watchOurs<T extends KubeObject>(
  { connection, clock, log, signal, startReflector, onChange, watches }: SecretAccessOptions,
  kind: Kind<T>,
): Reflector<T> {
  return startReflector<T>({
    connection,
    clock,
    log,
    signal,
    kind,
    labelSelector: `${LABEL_MANAGED_BY}=${MANAGER_CONTROLLER}`,
    onChange: (_, object, before) => {
      const { namespace, labels } = (object ?? before)?.metadata ?? {};
      const host = labels?.[LABEL_HOST];
      if (host !== undefined) onChange(keyOf({ namespace, name: host }));
    },
    onSynced: () => {
      for (const key of keysOf(watches)) onChange(key);
    },
  });
}

async function remove(client: KubeClient, kind: Kind<KubeObject>, { metadata }: KubeObject): Promise<void> {
  const removed = await client.remove(kind, metadata, { uid: metadata.uid });
  if (!removed.ok && removed.error.kind !== "notFound" && removed.error.kind !== "conflict")
    throw new ApiCallFailed(`delete ${kind.kind} ${metadata.name}`, removed.error);
}

function expectOk<T>(action: string, result: ApiResult<T>): T {
  if (result.ok) return result.value;
  throw new ApiCallFailed(action, result.error);
}
