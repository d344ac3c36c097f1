/** Reads a kubeconfig with client-node's config part, and rejects an invalid one with the reason. */
import { existsSync, readFileSync } from "node:fs";
import { delimiter, dirname, isAbsolute, join, resolve } from "node:path";
// Imports a deep path on purpose: the package's index loads every generated API class (+50 MB resident).
import { KubeConfig } from "@kubernetes/client-node/dist/config.js";
import { parse } from "yaml";
import { MetalbridgeError } from "../../api/errors.ts";

export interface KubeconfigSource {
  /** Absent: KUBECONFIG, then ~/.kube/config, then the pod's ServiceAccount. */
  readonly kubeconfigPath?: string | undefined;
  /** Uses the ServiceAccount of the pod that the program runs in. */
  readonly inCluster?: boolean | undefined;
  readonly context?: string | undefined;
  /** Bearer token that replaces the credential of the kubeconfig's user: same cluster, another person. */
  readonly token?: string | undefined;
}

const POD_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/** Loads and validates the kubeconfig. Called again whenever the credential may have changed. Throws MetalbridgeError. */
export function loadKubeconfig(source: KubeconfigSource): KubeConfig {
  const config = loaded(source);
  if (source.context !== undefined) config.setCurrentContext(source.context);
  checkTarget(config, source.kubeconfigPath ?? "the kubeconfig");
  if (source.token !== undefined) replaceUser(config, source.token);
  return config;
}

/** The server of a kubeconfig and, if set, the authority that signs its certificate, in base64. */
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

function loaded({ inCluster, kubeconfigPath }: KubeconfigSource): KubeConfig {
  if (inCluster === true) return loadFromCluster();
  return kubeconfigPath === undefined ? loadDefault() : loadFile(kubeconfigPath);
}

function loadFromCluster(): KubeConfig {
  const config = new KubeConfig();
  config.loadFromCluster();
  return config;
}

function loadFile(path: string): KubeConfig {
  const config = new KubeConfig();
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
    resolvePlugins(config, dirname(path));
    return config;
  } catch (cause) {
    throw invalid(`${path} is not a kubeconfig: ${messageOf(cause)}`, cause);
  }
}

/** As kubectl: the files of KUBECONFIG that exist, of which the first to name something wins, else ~/.kube/config. */
function loadDefault(): KubeConfig {
  // biome-ignore lint/style/noProcessEnv: read at each reload, as kubectl does, by every program
  const { KUBECONFIG = "", HOME = "" } = process.env;
  const named = KUBECONFIG.split(delimiter).filter((path) => path !== "");
  const paths = named.length > 0 || HOME === "" ? named : [join(HOME, ".kube", "config")];
  const [first, ...others] = paths.filter((path) => existsSync(path)).map(loadFile);
  if (first !== undefined) {
    for (const other of others) addMissing(first, other);
    return first;
  }
  if (named.length > 0)
    throw new MetalbridgeError("KubeconfigMissing", `no file of KUBECONFIG exists: ${named.join(", ")}`);
  if (existsSync(POD_TOKEN)) return loadFromCluster();
  throw new MetalbridgeError("KubeconfigMissing", "no kubeconfig was found");
}

function addMissing(config: KubeConfig, other: KubeConfig): void {
  const without = <T extends { readonly name: string }>(known: readonly T[], more: readonly T[]) =>
    more.filter(({ name }) => known.every((one) => one.name !== name));
  config.clusters.push(...without(config.clusters, other.clusters));
  config.users.push(...without(config.users, other.users));
  config.contexts.push(...without(config.contexts, other.contexts));
  config.currentContext ||= other.currentContext;
}

// client-node supports only the old spelling `token-file`, and reads the file only once.
function adoptTokenFiles(config: KubeConfig, text: string, folder: string): void {
  const parsed = parse(text) as { users?: { name?: string; user?: { tokenFile?: unknown } }[] } | null;
  for (const { name, user } of parsed?.users ?? []) {
    const tokenFile = user?.tokenFile;
    if (typeof tokenFile !== "string" || tokenFile === "") continue;
    const index = config.users.findIndex((known) => known.name === name);
    const known = config.users[index];
    if (known === undefined) continue;
    const { token: _superseded, ...withoutToken } = known;
    const absolute = tokenFile.startsWith("/") ? tokenFile : `${folder}/${tokenFile}`;
    const authProvider = { name: "tokenFile", config: { tokenFile: absolute } };
    config.users[index] = { ...withoutToken, authProvider };
  }
}

// Same as kubectl: `./plugin` is next to the kubeconfig, `plugin` on PATH.
function resolvePlugins(config: KubeConfig, folder: string): void {
  for (const { exec } of config.users) {
    const command: unknown = exec?.command;
    if (typeof command !== "string" || !command.includes("/") || isAbsolute(command)) continue;
    exec.command = resolve(folder, command);
  }
}

function replaceUser(config: KubeConfig, token: string): void {
  const name = config.getContextObject(config.getCurrentContext())?.user ?? "";
  config.users = [{ name, token }];
}

function checkTarget(config: KubeConfig, path: string): void {
  const name = config.getCurrentContext();
  if (name === undefined || name === "") throw invalid(`${path} has no current-context`);
  const context = config.getContextObject(name);
  if (context === null) throw invalid(`${path} has no context named ${JSON.stringify(name)}`);
  const missing = (kind: string, named: string) =>
    invalid(`${path}: context ${name} names the ${kind} ${JSON.stringify(named)}, which does not exist`);
  const cluster = config.getCurrentCluster();
  if (cluster === null) throw missing("cluster", context.cluster);
  if (config.getCurrentUser() === null) throw missing("user", context.user);
  checkServer(cluster.server, `${path}: cluster ${cluster.name}`);
}

function checkServer(server: unknown, subject: string): void {
  const url = typeof server === "string" ? URL.parse(server) : null;
  if (url === null)
    throw invalid(`${subject} has no usable server address: ${JSON.stringify(server) ?? "none"}`);
  if (url.protocol !== "https:")
    throw invalid(`${subject}: the server address must begin with https://, not ${url.protocol}//`);
}

function invalid(message: string, cause?: unknown): MetalbridgeError {
  return new MetalbridgeError("KubeconfigInvalid", message, undefined, { cause });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
