/** Credentials as users have them: of a host as `metalbridge host add` makes it, of the controller as the chart does. */
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { parse, stringify } from "yaml";
import { packageRoot } from "../../local/package-root.ts";
import { HOST_TOKEN_SECONDS } from "../../src/api/access/account.ts";
import { credentialSecretName } from "../../src/api/access/roles.ts";
import { API_VERSION, NAMESPACE_HOSTS, NAMESPACE_SYSTEM, SECRET_TRANSPORT } from "../../src/api/group.ts";
import { HOSTS, MODELS } from "../../src/api/kinds.ts";
import { connect, type KubeConnection } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { writeHostAccess } from "../../src/kube/host-access.ts";
import {
  CLUSTER_ROLE_BINDINGS,
  CLUSTER_ROLES,
  LEASES,
  ROLE_BINDINGS,
  ROLES,
  SECRETS,
  SERVICE_ACCOUNTS,
} from "../../src/kube/kinds.ts";
import { collectionPath, objectPath } from "../../src/kube/paths.ts";
import { requestToken } from "../../src/kube/token.ts";
import type { Kind, KubeObject } from "../../src/kube/types.ts";
import { must } from "./must.ts";
import { until } from "./until.ts";

/** A cluster by an administrator's kubeconfig. */
export interface Administered {
  readonly kubeconfig: string;
}

export interface Account {
  readonly name: string;
  readonly namespace: string;
  /** The kubeconfig to write. */
  readonly file: string;
  /** The Secret that its token ends with. */
  readonly boundTo?: { readonly name: string };
}

/** Of the Secrets; `metalbridge host add` chooses a random one. */
export const GENERATION = "bed";
const CONTROLLER = "metalbridge-controller";
const INSTALL = path.join(packageRoot(), "examples", "install", "metalbridge.yaml");
const ACCESS_KINDS = [SERVICE_ACCOUNTS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS, SECRETS];
const TIMEOUT_MS = 30_000;

/** What a host needs to act in its own name; resolves once the API server grants it. Its Host is not made. */
export async function giveIdentity(cluster: Administered, host: string, file: string): Promise<void> {
  await withConnection(cluster.kubeconfig, async (connection) => {
    const written = await writeHostAccess(createClient(connection), { host, generation: GENERATION });
    if (!written.ok) throw new Error(written.failed.error.message);
  });
  const boundTo = { name: credentialSecretName(host, GENERATION) };
  await writeAccountKubeconfig(cluster, { name: host, namespace: NAMESPACE_HOSTS, file, boundTo });
  await untilGranted(file, [
    collectionPath(HOSTS, undefined, { limit: "1" }),
    objectPath(LEASES, { name: host, namespace: NAMESPACE_HOSTS }),
  ]);
}

/** Registers a host with these addresses, unless there is one of that name. */
export async function addHost({ kubeconfig }: Administered, name: string, addresses: readonly string[]) {
  const host = { apiVersion: API_VERSION, kind: "Host", metadata: { name }, spec: { addresses } };
  await withConnection(kubeconfig, async (connection) => {
    const made = await createClient(connection).create(HOSTS as Kind<KubeObject>, host);
    if (!made.ok && made.error.kind !== "alreadyExists") must(made);
  });
}

/** The controller's account with the rights of examples/install; resolves once the API server grants them. */
export async function giveControllerIdentity(cluster: Administered, file: string): Promise<void> {
  await withConnection(cluster.kubeconfig, async (connection) => {
    const client = createClient(connection);
    await Promise.all(
      controllerAccess().map(async ({ object, kind }) =>
        must(await client.apply(kind, object, { manager: "install" })),
      ),
    );
  });
  await writeAccountKubeconfig(cluster, { name: CONTROLLER, namespace: NAMESPACE_SYSTEM, file });
  await untilGranted(file, [
    collectionPath(MODELS, undefined, { limit: "1" }),
    collectionPath(LEASES, NAMESPACE_HOSTS, { limit: "1" }),
    objectPath(LEASES, { name: CONTROLLER, namespace: NAMESPACE_SYSTEM }),
  ]);
}

/** A kubeconfig with a token of the account in place of the administrator's credential. */
export async function writeAccountKubeconfig(
  { kubeconfig }: Administered,
  { name, namespace, file, boundTo }: Account,
): Promise<void> {
  const token = await withConnection(kubeconfig, async (connection) =>
    must(
      await requestToken(connection, { account: { name, namespace }, seconds: HOST_TOKEN_SECONDS, boundTo }),
    ),
  );
  await writeTokenKubeconfig({ kubeconfig }, token, file);
}

/** A kubeconfig with a token in place of the administrator's credential. */
export async function writeTokenKubeconfig(
  { kubeconfig }: Administered,
  token: string,
  file: string,
): Promise<void> {
  const config = parse(readFileSync(kubeconfig, "utf8"));
  const users = config.users.map((user: { readonly name: string }) => ({ name: user.name, user: { token } }));
  await writeFile(file, stringify({ ...config, users }), { mode: 0o600 });
}

/** Only what is needed is parsed: every farm comes by here. */
function controllerAccess(): readonly { readonly object: KubeObject; readonly kind: Kind<KubeObject> }[] {
  const documents = readFileSync(INSTALL, "utf8").split("\n---\n");
  return documents.flatMap((text) => {
    const kind = ACCESS_KINDS.find((candidate) => text.includes(`\nkind: ${candidate.kind}\n`));
    const isOurs =
      kind !== undefined &&
      [CONTROLLER, SECRET_TRANSPORT].some((name) => text.includes(`\n  name: ${name}\n`));
    return isOurs ? [{ object: parse(text) as KubeObject, kind }] : [];
  });
}

/** The API server takes a moment to learn of new roles and bindings. */
async function untilGranted(kubeconfig: string, paths: readonly string[]): Promise<void> {
  await withConnection(kubeconfig, async (connection) => {
    const check = async (path: string) => {
      const answer = await connection.request({ method: "GET", path, timeoutMs: TIMEOUT_MS });
      if (answer.ok || answer.error.kind === "notFound") return;
      throw new Error(`GET ${path}: ${answer.error.message}`);
    };
    for (const path of paths) await until(() => check(path), { everyMs: 20 });
  });
}

async function withConnection<T>(
  kubeconfigPath: string,
  use: (connection: KubeConnection) => Promise<T>,
): Promise<T> {
  const connection = await connect({ kubeconfigPath });
  try {
    return await use(connection);
  } finally {
    connection.close();
  }
}
