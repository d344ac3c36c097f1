/** A console on the shared control plane, accounts with few rights, and signed-in readers. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { FastifyInstance } from "fastify";
import { CONSOLE_HEADER } from "../../../src/console/protocol.ts";
import { connect, type KubeConnection } from "../../../src/kube/client/connect.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import { ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS } from "../../../src/kube/kinds.ts";
import type { Role, Secret } from "../../../src/kube/objects.ts";
import { issueToken } from "../../../src/kube/token.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import { must } from "../../../test/bed/must.ts";
import { freePort } from "../../../test/bed/ports.ts";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import type { ConsoleOptions } from "../console.ts";
import { consoleApp } from "./console-app.ts";

export const consoleHeaders = { [CONSOLE_HEADER]: "1" };

export interface ConsoleRig extends AsyncDisposable {
  readonly namespace: string;
  readonly connection: KubeConnection;
  readonly client: KubeClient;
  readonly start: (changed?: Partial<ConsoleOptions>) => FastifyInstance;
  /** Token of a new account with these rights in the rig's namespace. It ends with the Secret of the account's name. */
  readonly tokenOf: (account: string, rules?: Role["rules"]) => Promise<string>;
}

export async function openConsoleRig(): Promise<ConsoleRig> {
  const stack = new AsyncDisposableStack();
  const cluster = sharedCluster();
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  stack.defer(() => connection.close());
  const client = createClient(connection);
  const namespace = stack.use(await cluster.namespace()).name;
  return {
    namespace,
    connection,
    client,
    start: (changed) => startConsole(stack, changed),
    tokenOf: async (name, rules = []) => {
      const metadata = { name, namespace };
      must(await client.create(SERVICE_ACCOUNTS, { metadata }));
      must(await client.create(ROLES, { metadata, rules }));
      const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name };
      const subjects = [{ kind: "ServiceAccount", name, namespace }];
      must(await client.create(ROLE_BINDINGS, { metadata, subjects, roleRef }));
      const { uid = "" } = must(await client.create(SECRETS, { metadata } as Secret)).metadata;
      const account = { namespace, name };
      return must(await issueToken(connection, { account, seconds: 600, boundTo: { name, uid } })).token;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

function startConsole(stack: AsyncDisposableStack, changed: Partial<ConsoleOptions> = {}): FastifyInstance {
  const cluster = { kubeconfigPath: sharedCluster().kubeconfig };
  const app = consoleApp({ cluster, folder: "/absent", ...changed });
  stack.defer(() => app.close());
  return app;
}

export async function signIn(app: FastifyInstance, body: object) {
  const answer = await app.inject({
    method: "POST",
    url: "/console/session",
    headers: consoleHeaders,
    payload: JSON.stringify(body),
  });
  const [cookie] = answer.cookies;
  const signed = { ...consoleHeaders, cookie: `${cookie?.name}=${cookie?.value}` };
  return {
    answer,
    cookie,
    signed,
    get: (url: string) => app.inject({ url, headers: signed }),
    send: (
      method: "POST" | "PUT" | "PATCH" | "DELETE",
      url: string,
      payload?: object,
      type = "application/json",
    ) =>
      app.inject({
        method,
        url,
        headers: payload === undefined ? signed : { ...signed, "content-type": type },
        payload: payload === undefined ? undefined : JSON.stringify(payload),
      }),
  };
}

/** A kubeconfig of an address where nothing listens. */
export async function unreachableKubeconfig(stack: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "mb-console-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const file = path.join(folder, "kubeconfig");
  const config = {
    clusters: [{ name: "c", cluster: { server: `https://127.0.0.1:${await freePort()}` } }],
    users: [{ name: "u", user: {} }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  };
  await writeFile(file, JSON.stringify(config));
  return file;
}
