/** The objects in the cluster that form the identity of a host, and the token with which its machine joins. */
import { credentialSecretName, hostAccess, joinSecretName } from "../api/access/roles.ts";
import { LABEL_HOST, NAMESPACE_HOSTS } from "../api/group.ts";
import type { KubeConnection } from "./client/connect.ts";
import { CLUSTER_ROLE_BINDINGS, LEASES, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS } from "./kinds.ts";
import { type IssuedToken, issueToken } from "./token.ts";
import type { ApiFailure, ApiResult, Kind, KubeClient, KubeObject, ObjectRef } from "./types.ts";

/** A failed call and its purpose. */
export interface FailedCall {
  readonly attempt: {
    readonly verb: "list" | "patch" | "create" | "delete";
    readonly kind: Kind<KubeObject>;
  } & Partial<ObjectRef>;
  readonly error: ApiFailure;
}

export type AccessResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly failed: FailedCall };

export interface Issuing {
  readonly client: KubeClient;
  readonly connection: KubeConnection;
}

export interface JoinTokenRequest {
  readonly host: string;
  /** Random, so that the owner of a token of one generation cannot name the Secrets of another. */
  readonly generation: string;
  readonly seconds: number;
  /** Secrets of the host, if the caller knows them. */
  readonly secrets?: readonly ObjectRef[] | undefined;
}

const MANAGER = "metalbridge-host-add";
const KINDS = [SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS];
const namespace = NAMESPACE_HOSTS;

/** Issues a join token and revokes all earlier tokens of the host. Does not create the Host itself. */
export async function issueJoinToken(
  ports: Issuing,
  request: JoinTokenRequest,
): Promise<AccessResult<IssuedToken>> {
  const written = await writeHostAccess(ports.client, request);
  if (!written.ok) return written;
  const { host: name, generation, seconds } = request;
  const boundTo = { name: joinSecretName(name, generation) };
  const token = await issueToken(ports.connection, { account: { name, namespace }, seconds, boundTo });
  return outcome({ verb: "create", kind: SERVICE_ACCOUNTS, name, namespace }, token);
}

/** Writes account, Role, bindings, Lease and Secrets of a host. Replaces those of an earlier `host add`, and bindings written by hand. */
export async function writeHostAccess(
  client: KubeClient,
  request: Omit<JoinTokenRequest, "seconds">,
): Promise<AccessResult<undefined>> {
  const { host, generation } = request;
  const objects = hostAccess(host, generation).map((object) => () => writeOne(client, object as KubeObject));
  // A Lease without a holder is free for the agent to acquire.
  const lease = { metadata: { name: host, namespace }, spec: {} };
  return untilFailed([
    ...objects,
    () => createIfMissing(client, LEASES, lease),
    () => replaceSecrets(client, request),
  ]);
}

async function replaceSecrets(
  client: KubeClient,
  { host, generation, secrets: known }: Omit<JoinTokenRequest, "seconds">,
): Promise<AccessResult<undefined>> {
  const names = [joinSecretName(host, generation), credentialSecretName(host, generation)];
  const secrets: AccessResult<readonly ObjectRef[]> =
    known === undefined ? await secretsOfHost(client, host) : { ok: true, value: known };
  if (!secrets.ok) return secrets;
  const stale = secrets.value.filter(({ name }) => !names.includes(name));
  return untilFailed([
    ...stale.map((ref) => () => removeOne(client, SECRETS, ref)),
    ...names.map((name) => () => {
      const metadata = { name, namespace, labels: { [LABEL_HOST]: host } };
      return createIfMissing(client, SECRETS, { metadata });
    }),
  ]);
}

async function untilFailed(
  steps: readonly (() => Promise<AccessResult<undefined>>)[],
): Promise<AccessResult<undefined>> {
  for (const step of steps) {
    const result = await step();
    if (!result.ok) return result;
  }
  return DONE;
}

const DONE = { ok: true, value: undefined } as const;

/** The Secrets that the tokens of the host are bound to. */
async function secretsOfHost(client: KubeClient, host: string): Promise<AccessResult<readonly ObjectRef[]>> {
  const found = await client.list(SECRETS, { namespace, labelSelector: `${LABEL_HOST}=${host}` });
  const all = outcome({ verb: "list", kind: SECRETS, namespace }, found);
  if (!all.ok) return all;
  return { ok: true, value: all.value.items.map(({ metadata: { name } }) => ({ name, namespace })) };
}

async function writeOne(client: KubeClient, object: KubeObject): Promise<AccessResult<undefined>> {
  const kind = KINDS.find((candidate) => candidate.kind === object.kind);
  if (kind === undefined) return DONE;
  const { name, namespace } = object.metadata;
  let applied = await client.apply(kind, object, { manager: MANAGER });
  // A binding that was written by hand refers to another role, which is immutable.
  if (!applied.ok && isOtherRole(applied.error)) {
    const removed = await removeOne(client, kind, { name, namespace });
    if (!removed.ok) return removed;
    applied = await client.apply(kind, object, { manager: MANAGER });
  }
  const written = outcome({ verb: "patch", kind, name, namespace }, applied);
  return written.ok ? DONE : written;
}

async function createIfMissing(
  client: KubeClient,
  kind: Kind<KubeObject>,
  object: KubeObject,
): Promise<AccessResult<undefined>> {
  const made = await client.create(kind, object);
  if (made.ok || made.error.kind === "alreadyExists") return DONE;
  const { name, namespace } = object.metadata;
  return { ok: false, failed: { attempt: { verb: "create", kind, name, namespace }, error: made.error } };
}

async function removeOne(
  client: KubeClient,
  kind: Kind<KubeObject>,
  ref: ObjectRef,
): Promise<AccessResult<undefined>> {
  const removed = await client.remove(kind, ref);
  if (removed.ok || removed.error.kind === "notFound") return DONE;
  return { ok: false, failed: { attempt: { verb: "delete", kind, ...ref }, error: removed.error } };
}

function outcome<T>(attempt: FailedCall["attempt"], result: ApiResult<T>): AccessResult<T> {
  return result.ok ? result : { ok: false, failed: { attempt, error: result.error } };
}

function isOtherRole({ kind, message }: ApiFailure): boolean {
  return kind === "invalid" && message.includes("roleRef");
}
