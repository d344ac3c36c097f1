/** Reading a kubeconfig with client-node's config part, and refusing one that cannot work with a sentence that says why. */
import { readFileSync } from "node:fs";
import { dirname, isAbsolute, resolve } from "node:path";
// The deep path on purpose: the package's index loads every generated API class (+50 MB resident).
import { KubeConfig } from "@kubernetes/client-node/dist/config.js";
import { parse } from "yaml";
import { MetalbridgeError } from "../../api/errors.ts";

export interface KubeconfigSource {
  /** Absent: KUBECONFIG, then ~/.kube/config, then the pod's ServiceAccount. */
  readonly kubeconfigPath?: string | undefined;
  /** The ServiceAccount of the pod we run in. */
  readonly inCluster?: boolean | undefined;
  readonly context?: string | undefined;
}

const FALLBACK_SERVER = "http://localhost:8080";

/** Loads and checks; called again whenever the credential may have changed. Throws MetalbridgeError. */
export function loadKubeconfig(source: KubeconfigSource): KubeConfig {
  const config = new KubeConfig();
  if (source.inCluster === true) config.loadFromCluster();
  else if (source.kubeconfigPath === undefined) loadDefault(config);
  else loadFile(config, source.kubeconfigPath);
  if (source.context !== undefined) config.setCurrentContext(source.context);
  checkTarget(config, source.kubeconfigPath ?? "the kubeconfig");
  return config;
}

/** Where a kubeconfig leads: the server and, where it names one, the authority that signs its certificate, as base64. */
export function serverOf(source: KubeconfigSource): { readonly server: string; readonly caData?: string } {
  const cluster = loadKubeconfig(source).getCurrentCluster();
  const server = cluster?.server ?? "";
  if (cluster?.caData !== undefined) return { server, caData: cluster.caData };
  if (cluster?.caFile === undefined) return { server };
  try {
    return { server, caData: readFileSync(cluster.caFile).toString("base64") };
  } catch (cause) {
    const why = `${cluster.caFile}: ${messageOf(cause)}`;
    throw new MetalbridgeError("KubeconfigUnreadable", why, undefined, { cause });
  }
}

function loadFile(config: KubeConfig, path: string): void {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new MetalbridgeError("KubeconfigUnreadable", `${path}: ${messageOf(cause)}`, undefined, { cause });
  }
  try {
    config.loadFromString(text);
    config.makePathsAbsolute(dirname(path));
    adoptTokenFiles(config, text, dirname(path));
    placePlugins(config, dirname(path));
  } catch (cause) {
    throw invalid(`${path} is not a kubeconfig: ${messageOf(cause)}`, cause);
  }
}

function loadDefault(config: KubeConfig): void {
  try {
    config.loadFromDefault();
  } catch (cause) {
    throw new MetalbridgeError("KubeconfigUnreadable", messageOf(cause), undefined, { cause });
  }
  // What client-node makes up when it finds nothing.
  if (config.getCurrentCluster()?.server === FALLBACK_SERVER && config.getClusters().length === 1) {
    throw new MetalbridgeError("KubeconfigMissing", "no kubeconfig was found");
  }
}

// client-node knows only the old spelling `token-file`, and reads that once.
function adoptTokenFiles(config: KubeConfig, text: string, folder: string): void {
  const parsed = parse(text) as { users?: { name?: string; user?: { tokenFile?: unknown } }[] } | null;
  for (const { name, user } of parsed?.users ?? []) {
    const tokenFile = user?.tokenFile;
    if (typeof tokenFile !== "string" || tokenFile === "") continue;
    const index = config.users.findIndex((known) => known.name === name);
    const known = config.users[index];
    if (known === undefined) continue;
    const { token: _superseded, ...rest } = known;
    const absolute = tokenFile.startsWith("/") ? tokenFile : `${folder}/${tokenFile}`;
    config.users[index] = { ...rest, authProvider: { name: "tokenFile", config: { tokenFile: absolute } } };
  }
}

// As kubectl does: `./plugin` lies beside the kubeconfig, `plugin` on PATH.
function placePlugins(config: KubeConfig, folder: string): void {
  for (const { exec } of config.users) {
    const command: unknown = exec?.command;
    if (typeof command !== "string" || !command.includes("/") || isAbsolute(command)) continue;
    exec.command = resolve(folder, command);
  }
}

function checkTarget(config: KubeConfig, where: string): void {
  const name = config.getCurrentContext();
  if (name === undefined || name === "") throw invalid(`${where} has no current-context`);
  const context = config.getContextObject(name);
  if (context === null) throw invalid(`${where} has no context named ${JSON.stringify(name)}`);
  const cluster = config.getCurrentCluster();
  if (cluster === null) {
    throw invalid(
      `${where}: context ${name} names the cluster ${JSON.stringify(context.cluster)}, which is not there`,
    );
  }
  if (config.getCurrentUser() === null) {
    throw invalid(
      `${where}: context ${name} names the user ${JSON.stringify(context.user)}, which is not there`,
    );
  }
  checkServer(cluster.server, `${where}: cluster ${cluster.name}`);
}

function checkServer(server: unknown, where: string): void {
  const url = typeof server === "string" && URL.canParse(server) ? new URL(server) : undefined;
  if (url === undefined)
    throw invalid(`${where} has no usable server address: ${JSON.stringify(server) ?? "none"}`);
  if (url.protocol !== "https:")
    throw invalid(`${where}: the server address must begin with https://, not ${url.protocol}//`);
}

function invalid(message: string, cause?: unknown): MetalbridgeError {
  return new MetalbridgeError("KubeconfigInvalid", message, undefined, { cause });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
