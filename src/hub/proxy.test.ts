import { createServer as createHttpServer, type Server } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { createProxy } from "proxy";
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished, test, vi } from "vitest";
import { describeUnless } from "../../test/bed/describe-unless.ts";
import { type Network, openNetwork, whyNoNetwork } from "../../test/bed/network.ts";
import { selfSigned } from "../../test/fixtures/self-signed.ts";
import { whyNoAuthority } from "../../test/fixtures/test-authority.ts";
import { sendSourceRequest } from "./client.ts";
import { failureOf } from "./fixtures/inspect.ts";
import { proxyUrl, proxyVariables, useProxies } from "./proxy.ts";

const HUB = "https://hub.example/a";
const P = "http://p.example:3128";

test.each<[string, string, Readonly<Record<string, string>>, string | undefined]>([
  ["nothing is set", HUB, {}, undefined],
  ["https", HUB, { HTTPS_PROXY: P }, P],
  ["http", "http://hub.example/a", { HTTPS_PROXY: "http://other", HTTP_PROXY: P }, P],
  ["only the other is set", "http://hub.example/a", { HTTPS_PROXY: P }, undefined],
  ["all", HUB, { ALL_PROXY: P }, P],
  ["the lower case comes first", HUB, { https_proxy: P, HTTPS_PROXY: "http://other" }, P],
  ["without a scheme", HUB, { HTTPS_PROXY: "p.example:3128" }, P],
  [
    "with credentials",
    HUB,
    { HTTPS_PROXY: "http://me:pa%20ss@p.example:3128" },
    "http://me:pa%20ss@p.example:3128",
  ],
  ["everything is exempt", HUB, { HTTPS_PROXY: P, NO_PROXY: "*" }, undefined],
  ["the host is exempt", HUB, { HTTPS_PROXY: P, no_proxy: "x, HUB.example" }, undefined],
  ["its domain is exempt", HUB, { HTTPS_PROXY: P, NO_PROXY: "example" }, undefined],
  ["what is below a domain is exempt", HUB, { HTTPS_PROXY: P, NO_PROXY: ".example" }, undefined],
  ["the same with a star", HUB, { HTTPS_PROXY: P, NO_PROXY: "*.example" }, undefined],
  ["the domain itself is not below itself", HUB, { HTTPS_PROXY: P, NO_PROXY: ".hub.example" }, P],
  ["another domain ends alike", HUB, { HTTPS_PROXY: P, NO_PROXY: "ub.example" }, P],
  ["the port is exempt", HUB, { HTTPS_PROXY: P, NO_PROXY: "hub.example:443" }, undefined],
  ["another port is exempt", HUB, { HTTPS_PROXY: P, NO_PROXY: "hub.example:8443" }, P],
  ["a network is exempt", "https://10.1.2.3/a", { HTTPS_PROXY: P, NO_PROXY: "10.0.0.0/8" }, undefined],
  [
    "another network is exempt",
    "https://11.1.2.3/a",
    { HTTPS_PROXY: P, NO_PROXY: "10.0.0.0/8,10.0.0.0/99" },
    P,
  ],
  ["an address is exempt", "https://[fd00::1]/a", { HTTPS_PROXY: P, NO_PROXY: "fd00::1" }, undefined],
  ["an IPv6 network is exempt", "https://[fd00::1]/a", { HTTPS_PROXY: P, NO_PROXY: "fd00::/8" }, undefined],
  ["loopback", "http://127.0.0.1:1/a", { HTTP_PROXY: P }, undefined],
  ["localhost", "http://localhost:1/a", { HTTP_PROXY: P }, undefined],
])("the proxy of a request: %s", (_, url, env, expected) => {
  expect(proxyUrl(new URL(url), env)?.href.replace(/\/$/, "")).toBe(expected);
});

test.each(["socks5://p.example", "http://", "http://[", "ftp://me:secret@p.example"])(
  "%s is refused without showing it",
  async (HTTPS_PROXY) => {
    const failure = await failureOf((async () => proxyUrl(new URL(HUB), { HTTPS_PROXY }))());
    expect(failure.message).toBe("HTTPS_PROXY is not the http:// or https:// URL of a proxy");
  },
);

test("a configuration overrides the environment, also in lower case, and what it leaves out stays", () => {
  const env: Record<string, string | undefined> = { https_proxy: "http://old", NO_PROXY: "a" };
  useProxies({ httpsProxy: P }, env);
  expect(proxyVariables(env)).toEqual([
    { name: "HTTPS_PROXY", value: P },
    { name: "NO_PROXY", value: "a" },
  ]);
});

describeUnless(whyNoNetwork() ?? whyNoAuthority(), "requests through a proxy", () => {
  let network: Network;
  const servers: Server[] = [];
  let seen: string[] = [];
  const listen = async (server: Server): Promise<number> => {
    servers.push(server);
    await new Promise<void>((listening) => server.listen(0, "0.0.0.0", listening));
    return (server.address() as AddressInfo).port;
  };
  let plain = "";
  let secure = "";
  let proxy = "";

  beforeAll(async () => {
    // Loopback is never reached through a proxy.
    network = await openNetwork(["station"]);
    plain = `http://${network.gateway}:${await listen(createHttpServer((_, response) => response.end("plain")))}/a`;
    const https = createHttpsServer(selfSigned(), (_, response) => response.end("secure"));
    secure = `https://${network.gateway}:${await listen(https as unknown as Server)}/a`;
    const server = createProxy(createHttpServer());
    server.authenticate = ({ headers, url = "" }) => {
      seen.push(url);
      return headers["proxy-authorization"] === `Basic ${btoa("me:secret")}`;
    };
    proxy = `127.0.0.1:${await listen(server)}`;
  });
  beforeEach(() => {
    seen = [];
    vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
    onTestFinished(() => void vi.unstubAllEnvs());
  });
  afterAll(async () => {
    for (const server of servers) server.closeAllConnections();
    for (const server of servers) server.close();
    await network[Symbol.asyncDispose]();
  });

  const read = async (url: string) => {
    const { signal } = new AbortController();
    const rules = {
      connectMs: 10_000,
      stallMs: 10_000,
      maxRedirects: 0,
      allowLoopback: true,
      allowPrivate: false,
    };
    const { status, body } = await sendSourceRequest(
      new URL(url),
      { signal },
      { ...rules, trustedHost: new URL(url).host },
    );
    return { status, text: await text(body) };
  };

  it("gets the file of both kinds of addresses, with the credentials of the proxy", async () => {
    for (const name of ["HTTP_PROXY", "HTTPS_PROXY"]) vi.stubEnv(name, `http://me:secret@${proxy}`);
    expect(await read(plain)).toEqual({ status: 200, text: "plain" });
    expect(await read(secure)).toEqual({ status: 200, text: "secure" });
    expect(seen).toEqual([plain, new URL(secure).host]);
    vi.stubEnv("NO_PROXY", network.gateway);
    expect(await read(secure)).toEqual({ status: 200, text: "secure" });
    expect(seen).toHaveLength(2);
  });

  it("names a proxy that refuses or is not there, without its password", async () => {
    for (const name of ["HTTP_PROXY", "HTTPS_PROXY"]) vi.stubEnv(name, `http://me:wrong@${proxy}`);
    for (const url of [plain, secure]) {
      const { message, isTransient } = await failureOf(read(url));
      expect(message).toBe(
        `could not reach ${new URL(url).host} through the proxy ${proxy}: the proxy answered 407`,
      );
      expect(isTransient).toBe(true);
    }
    for (const name of ["HTTP_PROXY", "HTTPS_PROXY"]) vi.stubEnv(name, "http://me:secret@127.0.0.1:1");
    for (const url of [plain, secure])
      expect((await failureOf(read(url))).message).toMatch(
        / through the proxy 127\.0\.0\.1:1: connect ECONNREFUSED/,
      );
  });
});
