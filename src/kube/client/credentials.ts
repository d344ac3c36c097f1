/** Headers and TLS settings of requests, renewed from files and plugins without a restart. */

import { type SpawnOptions, spawn } from "node:child_process";
import type { RequestOptions } from "node:https";
import type { KubeConfig } from "@kubernetes/client-node/dist/config.js";
import { ExecAuth } from "@kubernetes/client-node/dist/exec_auth.js";
import { type KubeconfigSource, loadKubeconfig } from "./kubeconfig.ts";

export interface Credential {
  readonly server: URL;
  readonly headers: Record<string, string>;
  readonly tls: TlsSettings;
  /** client-node's agent, if the cluster is behind a proxy. */
  readonly proxyAgent?: NonNullable<RequestOptions["agent"]>;
}

export type TlsSettings = Pick<
  RequestOptions,
  "ca" | "cert" | "key" | "pfx" | "passphrase" | "rejectUnauthorized" | "servername"
>;

export interface CredentialProvider {
  /** Runs exec plugins and reads token files if necessary. Rejects if the credential cannot be obtained. */
  readonly current: () => Promise<Credential>;
  /** Reloads everything, at most once every few seconds; false if nothing was loaded since `generation`. */
  readonly reloadSince: (generation: number) => boolean;
  readonly generation: () => number;
  /** Reloads a changed file for the next request. False if it cannot be read; the old configuration stays in use. */
  readonly reload: () => boolean;
  /** Reloads while the server is unreachable, at most once every few seconds; true if the file now names another server. */
  readonly reloadIfMoved: () => boolean;
  readonly server: () => string;
}

const PLUGIN_TIMEOUT_MS = 30_000;
const RELOAD_PAUSE_MS = 2_000;

export interface CredentialSource extends KubeconfigSource {
  /** Time after which a run of an exec plugin is killed. */
  readonly pluginTimeoutMs?: number;
}

/** Loads once and throws MetalbridgeError. After later failures, the last loaded configuration stays in use. */
export function openCredentials(source: CredentialSource): CredentialProvider {
  const { pluginTimeoutMs = PLUGIN_TIMEOUT_MS } = source;
  const load = (): KubeConfig => {
    const loaded = loadKubeconfig(source);
    boundPlugins(loaded, pluginTimeoutMs);
    return loaded;
  };
  let config = load();
  /** Shared by concurrent callers, because each may run a plugin. */
  let pending: { readonly config: KubeConfig; readonly credential: Promise<Credential> } | undefined;
  let generation = 1;
  let loadedAtMs = performance.now();

  const reloadIf = (isUseful: (loaded: KubeConfig) => boolean): boolean => {
    loadedAtMs = performance.now();
    let loaded: KubeConfig;
    try {
      loaded = load();
    } catch {
      return false; // half-written or missing for a moment: the next 401 retries
    }
    if (!isUseful(loaded)) return false;
    config = loaded;
    generation += 1;
    return true;
  };
  const reload = () => reloadIf(() => true);
  const mayReload = () => performance.now() - loadedAtMs >= RELOAD_PAUSE_MS;
  const reloadSince = (since: number): boolean => since < generation || (mayReload() && reload());
  // A configuration of the same server is not loaded: it would discard the credentials of plugins and token files.
  const reloadIfMoved = (): boolean =>
    mayReload() && reloadIf((loaded) => targetOf(loaded) !== targetOf(config));

  const current = (): Promise<Credential> => {
    if (pending?.config === config) return pending.credential;
    const own = { config, credential: credentialOf(config, pluginTimeoutMs) };
    pending = own;
    const forget = () => {
      if (pending === own) pending = undefined;
    };
    own.credential.then(forget, forget);
    return own.credential;
  };

  return {
    current,
    reloadSince,
    reloadIfMoved,
    reload,
    generation: () => generation,
    server: () => config.getCurrentCluster()?.server ?? "",
  };
}

/** Server of a kubeconfig, and the settings that authenticate it. */
function targetOf(config: KubeConfig): string {
  return JSON.stringify(config.getCurrentCluster() ?? null);
}

async function credentialOf(config: KubeConfig, pluginTimeoutMs: number): Promise<Credential> {
  const options: RequestOptions & { headers: Record<string, string> } = { headers: {} };
  await withTimeout(pluginTimeoutMs, config.applyToHTTPSOptions(options));
  const { ca, cert, key, pfx, passphrase, rejectUnauthorized, servername, auth, agent } = options;
  const headers = { ...options.headers };
  if (typeof auth === "string") headers.Authorization = `Basic ${Buffer.from(auth).toString("base64")}`;
  for (const [name, value] of Object.entries(headers)) headers[name] = String(value).trim();
  checkTokenFile(config, headers);
  const cluster = config.getCurrentCluster();
  const credential: Credential = {
    server: new URL(cluster?.server ?? ""),
    headers,
    tls: { ca, cert, key, pfx, passphrase, rejectUnauthorized, servername } as TlsSettings,
  };
  if (cluster?.proxyUrl === undefined || agent === undefined) return credential;
  return { ...credential, proxyAgent: agent };
}

/** Rejects an empty token file, which may be in the middle of a rewrite: a request without the token would be anonymous. */
function checkTokenFile(config: KubeConfig, headers: Readonly<Record<string, string>>): void {
  const settings: unknown = config.getCurrentUser()?.authProvider?.config;
  const file = typeof settings === "object" && settings !== null && Reflect.get(settings, "tokenFile");
  if (typeof file !== "string" || /^Bearer ./.test(headers.Authorization ?? "")) return;
  throw new Error(`the token file ${file} is empty`);
}

async function withTimeout<T>(limitMs: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`the credential plugin took longer than ${limitMs / 1_000} s`)),
      limitMs,
    );
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

type Start = (command: string, args: readonly string[] | undefined, options: SpawnOptions) => unknown;

/** Kills a plugin after the timeout, so that a plugin that hangs does not leave a process behind at each attempt. */
function boundPlugins(config: KubeConfig, timeoutMs: number): void {
  // Neither the list nor the function is part of client-node's declared interface.
  const { authenticators } = config as unknown as { readonly authenticators: readonly unknown[] };
  const start: Start = (command, args = [], options) =>
    spawn(command, [...args], {
      ...options,
      stdio: ["ignore", "pipe", "pipe"],
      timeout: timeoutMs,
      killSignal: "SIGKILL",
    });
  for (const one of authenticators) if (one instanceof ExecAuth) Object.assign(one, { execFn: start });
}
