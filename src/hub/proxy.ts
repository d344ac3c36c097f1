/**
 * Proxies between this machine and the servers of sources, from HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY, which are read
 * as kubectl and other programs in Go read them. The agent's configuration overrides them.
 */
import type { Agent } from "node:http";
import { BlockList, isIP } from "node:net";
import { HttpProxyAgent } from "http-proxy-agent";
import { HttpsProxyAgent } from "https-proxy-agent";
import type { Log } from "../util/ports.ts";
import { isLoopbackAddress } from "./addresses.ts";
import { permanent } from "./failure.ts";

export interface ProxySettings {
  readonly httpsProxy?: string | undefined;
  readonly httpProxy?: string | undefined;
  readonly noProxy?: string | undefined;
}

export interface Proxy {
  readonly agent: Agent;
  /** Host and port, without credentials. */
  readonly name: string;
}

type Environment = Record<string, string | undefined>;

// biome-ignore lint/style/noProcessEnv: every program reads them where it sends a request, as others do
const ENVIRONMENT: Environment = process.env;

const VARIABLES = { httpsProxy: "HTTPS_PROXY", httpProxy: "HTTP_PROXY", noProxy: "NO_PROXY" } as const;

/** Undefined where the request goes to the server itself. Throws SourceFailure for a proxy that is no URL. */
export function proxyFor(url: URL, env: Readonly<Environment> = ENVIRONMENT): Proxy | undefined {
  const proxy = proxyUrl(url, env);
  if (proxy === undefined) return undefined;
  const agent = url.protocol === "https:" ? new HttpsProxyAgent(proxy) : new HttpProxyAgent(proxy);
  return { agent, name: proxy.host };
}

/** Pure. */
export function proxyUrl(url: URL, env: Readonly<Environment>): URL | undefined {
  const own = url.protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY";
  const name = [own, "ALL_PROXY"].find((one) => variable(one, env) !== "");
  if (name === undefined || isExempt(url, variable("NO_PROXY", env))) return undefined;
  const value = variable(name, env);
  const proxy = URL.parse(value.includes("://") ? value : `http://${value}`);
  if (proxy?.protocol === "http:" || proxy?.protocol === "https:") return proxy;
  // The value may have a password.
  throw permanent("SourceUnreachable", `${name} is not the http:// or https:// URL of a proxy`);
}

/** The variables that are set, for programs that this one starts elsewhere. */
export function proxyVariables(
  env: Readonly<Environment> = ENVIRONMENT,
): readonly { readonly name: string; readonly value: string }[] {
  return [...Object.values(VARIABLES), "ALL_PROXY"].flatMap((name) => {
    const value = variable(name, env);
    return value === "" ? [] : [{ name, value }];
  });
}

/** For this whole process, from its configuration. */
export function useProxies(settings: ProxySettings, env: Environment = ENVIRONMENT): void {
  for (const key of Object.keys(VARIABLES) as (keyof typeof VARIABLES)[]) {
    const value = settings[key];
    if (value === undefined) continue;
    env[VARIABLES[key]] = value;
    delete env[VARIABLES[key].toLowerCase()];
  }
}

/** Once at the start of a program that downloads for others. */
export function reportProxies(log: Log): void {
  const names = proxyVariables().map(({ name }) => name);
  if (names.some((name) => name !== VARIABLES.noProxy))
    log.info(
      { variables: names },
      "sources are requested through a proxy, which looks their names up: of names, private addresses are not refused here",
    );
}

/** As in other programs, the lower case comes first. */
function variable(name: string, env: Readonly<Environment>): string {
  return (env[name.toLowerCase()] || env[name] || "").trim();
}

/** Loopback never needs a proxy. */
function isExempt({ hostname, protocol, port }: URL, noProxy: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, "").toLowerCase();
  if (host === "localhost" || isLoopbackAddress(host)) return true;
  const usedPort = port || (protocol === "https:" ? "443" : "80");
  return noProxy
    .toLowerCase()
    .split(/[\s,]+/)
    .some((entry) => entry !== "" && matches(entry, host, usedPort));
}

/** `*`, a network, an address, or a domain with all below it: `.example.com` without itself. A port may follow. */
function matches(entry: string, host: string, port: string): boolean {
  if (entry === "*") return true;
  const [, address = "", bits] = /^(.+)\/(\d{1,3})$/.exec(entry) ?? [];
  if (isIP(address) !== 0) return isIP(address) === isIP(host) && isInNetwork(host, address, Number(bits));
  const [, named = entry, onlyPort = port] = isIP(entry) === 6 ? [] : (/^(.+):(\d+)$/.exec(entry) ?? []);
  if (onlyPort !== port) return false;
  const name = named.replace(/^\*(?=\.)/, "").replace(/^\[|\]$/g, "");
  return name.startsWith(".") ? host.endsWith(name) : host === name || host.endsWith(`.${name}`);
}

function isInNetwork(host: string, address: string, bits: number): boolean {
  const family = isIP(host) === 6 ? "ipv6" : "ipv4";
  if (bits > (family === "ipv6" ? 128 : 32)) return false;
  const network = new BlockList();
  network.addSubnet(address, bits, family);
  return network.check(host, family);
}
