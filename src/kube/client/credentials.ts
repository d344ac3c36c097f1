/** Headers and TLS settings for the next request, renewed from their files and plugins without a restart. */
import type { RequestOptions } from "node:https";
import type { KubeConfig } from "@kubernetes/client-node/dist/config.js";
import { boundPlugins } from "./exec-plugin.ts";
import { type KubeconfigSource, loadKubeconfig } from "./kubeconfig.ts";

export interface Credential {
  readonly server: URL;
  readonly headers: Record<string, string>;
  readonly tls: TlsSettings;
  /** Set when the cluster is behind a proxy: client-node's agent for it. */
  readonly proxyAgent?: NonNullable<RequestOptions["agent"]>;
}

export type TlsSettings = Pick<
  RequestOptions,
  "ca" | "cert" | "key" | "pfx" | "passphrase" | "rejectUnauthorized" | "servername"
>;

export interface CredentialProvider {
  /** Runs exec plugins and reads token files where they are due. Rejects when the credential cannot be had. */
  readonly current: () => Promise<Credential>;
  /** Reloads everything, at most once per few seconds; false if nothing was loaded since `generation`. */
  readonly reloadSince: (generation: number) => boolean;
  readonly generation: () => number;
  /** The file has changed: what it says now counts from the next request on. False if it cannot be read; the old one stays. */
  readonly reload: () => boolean;
  /** For an unreachable server: reloads, at most once per few seconds; true if the file now names another server. */
  readonly reloadIfMoved: () => boolean;
  readonly server: () => string;
}

const PLUGIN_TIMEOUT_MS = 30_000;
const RELOAD_PAUSE_MS = 2_000;

export interface CredentialSource extends KubeconfigSource {
  /** For one run of an exec plugin; it is then killed. */
  readonly pluginTimeoutMs?: number;
}

/** Loads once, throwing MetalbridgeError; later failures keep what was loaded last. */
export function openCredentials(source: CredentialSource): CredentialProvider {
  const { pluginTimeoutMs = PLUGIN_TIMEOUT_MS } = source;
  const load = (): KubeConfig => {
    const loaded = loadKubeconfig(source);
    boundPlugins(loaded, pluginTimeoutMs);
    return loaded;
  };
  let config = load();
  /** Shared by all who ask meanwhile: each question may be a run of a plugin. */
  let asked: { readonly of: KubeConfig; readonly answer: Promise<Credential> } | undefined;
  let generation = 1;
  let loadedAtMs = performance.now();

  const reload = (): boolean => {
    loadedAtMs = performance.now();
    try {
      config = load();
    } catch {
      return false; // half-written or missing for a moment: the next 401 retries
    }
    generation += 1;
    return true;
  };
  const reloadSince = (since: number): boolean => {
    if (since < generation) return true;
    return performance.now() - loadedAtMs >= RELOAD_PAUSE_MS && reload();
  };

  const reloadIfMoved = (): boolean => {
    if (performance.now() - loadedAtMs < RELOAD_PAUSE_MS) return false;
    loadedAtMs = performance.now();
    let loaded: KubeConfig;
    try {
      loaded = load();
    } catch {
      return false;
    }
    // What leads to the same place is not taken up: with it would go what plugins and token files have answered.
    if (placeOf(loaded) === placeOf(config)) return false;
    config = loaded;
    generation += 1;
    return true;
  };

  const current = (): Promise<Credential> => {
    if (asked?.of === config) return asked.answer;
    const own = { of: config, answer: credentialOf(config, pluginTimeoutMs) };
    asked = own;
    const forget = () => {
      if (asked === own) asked = undefined;
    };
    own.answer.then(forget, forget);
    return own.answer;
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

/** Where a kubeconfig leads, and whom it takes for the server. */
function placeOf(config: KubeConfig): string {
  return JSON.stringify(config.getCurrentCluster() ?? null);
}

async function credentialOf(config: KubeConfig, pluginTimeoutMs: number): Promise<Credential> {
  const options: RequestOptions & { headers: Record<string, string> } = { headers: {} };
  await within(pluginTimeoutMs, config.applyToHTTPSOptions(options));
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

/** A file that is being rewritten may be empty: without its token we would be a stranger, whose refusal means nothing. */
function checkTokenFile(config: KubeConfig, headers: Readonly<Record<string, string>>): void {
  const settings: unknown = config.getCurrentUser()?.authProvider?.config;
  const file = typeof settings === "object" && settings !== null && Reflect.get(settings, "tokenFile");
  if (typeof file !== "string" || /^Bearer ./.test(headers.Authorization ?? "")) return;
  throw new Error(`the token file ${file} is empty`);
}

async function within<T>(limitMs: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`the credential plugin took longer than ${limitMs / 1_000} s`)),
      limitMs,
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
