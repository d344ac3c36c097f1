/** `metalbridge server` with the console as the process that users run, and tokens of people who sign in. */
import { existsSync } from "node:fs";
import path from "node:path";
import { packageRoot } from "../../../local/package-root.ts";
import type { Objects } from "../objects.ts";
import { type Part, startPart } from "../part.ts";
import { freePort } from "../ports.ts";
import { until } from "../until.ts";

export interface ConsoleServer extends AsyncDisposable {
  /** Without /console. */
  readonly url: string;
  readonly part: () => Part;
  /** Base URL of /readyz and /metrics. */
  readonly health: string;
  readonly metrics: () => Promise<string>;
  /** Starts the program again on the same port, once the one before has exited. */
  readonly restart: () => Promise<void>;
}

/** Resolves once it answers. `dir` is for its log. */
export async function startConsoleServer(
  kubeconfig: string,
  dir: string,
  args: readonly string[] = [],
): Promise<ConsoleServer> {
  if (!existsSync(path.join(packageRoot(), "dist", "console", "index.html")))
    throw new Error("dist/console is missing: npm run build");
  const [port, healthPort] = [await freePort(), await freePort()];
  const health = `http://127.0.0.1:${healthPort}`;
  const flags = ["--kubeconfig", kubeconfig, "--port", String(port), "--health-port", String(healthPort)];
  const start = () => startPart(["server", ...flags, ...args], path.join(dir, "server.log"));
  let part = start();
  const untilReady = () =>
    until(async () => {
      if (!part.isRunning()) throw new Error(`the server has exited: ${part.log()}`);
      const answer = await fetch(`${health}/readyz`);
      if (!answer.ok) throw new Error(await answer.text());
    });
  await untilReady();
  return {
    url: `http://127.0.0.1:${port}`,
    part: () => part,
    health,
    metrics: async () => (await fetch(`${health}/metrics`)).text(),
    restart: async () => {
      part = start();
      await untilReady();
    },
    [Symbol.asyncDispose]: () => part.kill("SIGTERM"),
  };
}

/** Where a person's rights come from: a ClusterRole for the whole cluster, or for one namespace. */
export interface Rights {
  readonly clusterRole?: string;
  readonly namespace?: string;
}

/**
 * A token of a new ServiceAccount `default/NAME`, from the TokenRequest API; by default of an administrator. Deleting the
 * account ends the token.
 */
export async function tokenFor(
  { objects }: { readonly objects: Objects },
  name: string,
  { clusterRole = "cluster-admin", namespace }: Rights = {},
): Promise<string> {
  const rbac = "rbac.authorization.k8s.io";
  const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name, namespace: "default" } };
  const binding = {
    apiVersion: `${rbac}/v1`,
    kind: namespace === undefined ? "ClusterRoleBinding" : "RoleBinding",
    metadata: { name, namespace },
    roleRef: { apiGroup: rbac, kind: "ClusterRole", name: clusterRole },
    subjects: [{ kind: "ServiceAccount", name, namespace: "default" }],
  };
  await objects.apply(account, binding);
  return objects.token("default", name);
}
