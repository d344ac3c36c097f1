/** Pages, headers, cross-site safety and sessions of the console, without an API server. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { FastifyInstance } from "fastify";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { CONSOLE_HEADER } from "../../src/console/protocol.ts";
import type { ConsoleOptions } from "./console.ts";
import { createSeal } from "./session/seal.ts";
import { consoleApp } from "./testing/console-app.ts";

const HOST = "console.example";
const call = { [CONSOLE_HEADER]: "1", host: HOST };
let folder = "";
const open: FastifyInstance[] = [];

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "mb-console-"));
  await mkdir(path.join(folder, "pages", "assets"), { recursive: true });
  const files = {
    "secret.txt": "outside",
    "pages/index.html": '<script nonce="__NONCE__"></script><style nonce="__NONCE__"></style>',
    "pages/icon.svg": "<svg/>",
    "pages/assets/app-1a2b3c4d.js": "plain",
    "pages/assets/app-1a2b3c4d.js.br": "brotli",
    "pages/assets/app-1a2b3c4d.js.gz": "gzip",
  };
  for (const [name, content] of Object.entries(files)) await writeFile(path.join(folder, name), content);
});
afterAll(() => rm(folder, { recursive: true, force: true }));
afterEach(async () => {
  for (const app of open.splice(0)) await app.close();
});

function start(changed: Partial<ConsoleOptions> = {}) {
  const cluster = { kubeconfigPath: path.join(folder, "absent") };
  const app = consoleApp({ cluster, folder: path.join(folder, "pages"), ...changed }, () => "everything");
  open.push(app);
  return app;
}

test("the index has a new nonce for each load, and a policy that allows only it and own files", async () => {
  const app = start();
  const nonces = new Set<string>();
  for (const url of ["/console/", "/console/services/team-a/chat", "/console/models/team-a/llama-3.1.js"]) {
    const { statusCode, headers, body } = await app.inject({ url });
    expect(statusCode).toBe(200);
    const nonce = /script nonce="([^"]+)"/.exec(body)?.[1] ?? "";
    expect(body).toBe(`<script nonce="${nonce}"></script><style nonce="${nonce}"></style>`);
    nonces.add(nonce);
    expect(headers).toMatchObject({
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cross-origin-opener-policy": "same-origin",
    });
    const policy = String(headers["content-security-policy"]);
    expect(policy).toContain(`script-src 'self' 'nonce-${nonce}';`);
    expect(policy).toContain("default-src 'none'; ");
    expect(policy).toContain("frame-ancestors 'none'; base-uri 'none'");
    expect(policy).not.toContain("unsafe");
    expect(headers["access-control-allow-origin"]).toBeUndefined();
  }
  expect(nonces.size).toBe(3);
});

test("the root leads to the console", async () => {
  const app = start();
  for (const url of ["/", "/console"])
    expect((await app.inject({ url })).headers.location, url).toBe("/console/");
});

test.each([
  ["br, gzip", "brotli", "br"],
  ["gzip;q=1.0, br;q=0", "gzip", "gzip"],
  ["", "plain", undefined],
])("a file is sent in the form that the browser accepts: %j", async (accepted, body, encoding) => {
  const answer = await start().inject({
    url: "/console/assets/app-1a2b3c4d.js",
    headers: { "accept-encoding": accepted },
  });
  expect(answer.body).toBe(body);
  expect(answer.headers).toMatchObject({
    "content-type": "text/javascript; charset=utf-8",
    "cache-control": "public, max-age=31536000, immutable",
    "x-content-type-options": "nosniff",
    vary: "accept-encoding",
  });
  expect(answer.headers["content-encoding"]).toBe(encoding);
});

test("a file without a hash in its name is revalidated", async () => {
  const app = start();
  const first = await app.inject({ url: "/console/icon.svg" });
  expect(first.headers["cache-control"]).toBe("no-cache");
  const headers = { "if-none-match": String(first.headers.etag) };
  expect((await app.inject({ url: "/console/icon.svg", headers })).statusCode).toBe(304);
});

test.each([
  "/console/../secret.txt",
  "/console/..%2fsecret.txt",
  "/console/%2e%2e/secret.txt",
  "/console/assets/..%2f..%2fsecret.txt",
  "/console/assets/absent.js",
  "/console/assets/app-1a2b3c4d.js.br",
  "/console/x%00.js",
])("%s is not found", async (url) => {
  expect((await start().inject({ url })).body).not.toContain("outside");
  expect([400, 401, 404]).toContain((await start().inject({ url })).statusCode);
});

test("a server without built pages says how to build them", async () => {
  const answer = await start({ folder: path.join(folder, "absent") }).inject({ url: "/console/" });
  expect([answer.statusCode, answer.body]).toEqual([503, expect.stringContaining("npm run build")]);
});

test.each([
  ["without the header", { host: HOST }],
  ["from another origin", { ...call, origin: "https://evil.example" }],
  ["from another port", { ...call, origin: `http://${HOST}:81` }],
  ["from a sandboxed page", { ...call, origin: "null" }],
  ["from another site", { ...call, "sec-fetch-site": "cross-site" }],
])("a call %s is refused", async (_, headers) => {
  const app = start();
  for (const [method, url] of [
    ["GET", "/console/session"],
    ["POST", "/console/session"],
    ["DELETE", "/console/session"],
    ["POST", "/console/rights"],
    ["POST", "/console/gateway-key"],
  ] as const) {
    const answer = await app.inject({ method, url, headers, payload: method === "POST" ? "{}" : undefined });
    expect([answer.statusCode, answer.json().code], url).toEqual([403, "ConsoleRequestRefused"]);
  }
});

test.each([
  ["https://console.example", "console.example:443"],
  ["http://console.example", "console.example:80"],
  ["http://console.example:81", "Console.example:81"],
])("a call from %s reaches %s", async (origin, host) => {
  const answer = await start().inject({ url: "/console/session", headers: { ...call, origin, host } });
  expect(answer.statusCode).toBe(401);
});

test("a server on loopback answers no name that a stranger has pointed at it", async () => {
  const app = start({ isOnLoopback: true });
  for (const host of ["evil.example", "evil.example:8080", "127.0.0.1.evil.example"]) {
    const answer = await app.inject({ url: "/console/", headers: { host } });
    expect(answer.statusCode, host).toBe(403);
  }
  for (const host of ["localhost:8080", "127.0.0.1:8080", "[::1]:8080"])
    expect((await app.inject({ url: "/console/", headers: { host } })).statusCode, host).toBe(200);
});

test.each([
  ["token", {}],
  ["code", { codes: { current: () => "", redeem: () => false } }],
] as const)("without a session, a call learns to sign in by %s", async (by, changed) => {
  const answer = await start(changed).inject({ url: "/console/session", headers: call });
  expect(answer.statusCode).toBe(401);
  expect(answer.json()).toMatchObject({ code: "SignInNeeded", by });
});

test("a session of another server, and one that was changed, are none", async () => {
  const app = start({ sessionSecret: Buffer.alloc(32, 1) });
  const session = { token: "t", user: "ada", untilMs: Date.now() + 60_000 };
  const cookie = (secret: number, purpose = "metalbridge") =>
    createSeal(Buffer.alloc(32, secret)).seal(purpose, session);
  const ask = async (value: string) =>
    (
      await app.inject({
        method: "POST",
        url: "/console/rights",
        headers: { ...call, cookie: `other=1; metalbridge=${value}` },
        payload: "no json",
      })
    ).statusCode;
  const own = cookie(1);
  expect(await ask(own)).toBe(400); // signed in; the body is refused
  expect(await ask(cookie(2))).toBe(401);
  expect(await ask(cookie(1, "other purpose"))).toBe(401);
  expect(await ask(own.slice(0, -3))).toBe(401);
  expect(await ask(`A${own.slice(1)}`)).toBe(401);
  expect(await ask("")).toBe(401);
});

test("a call with more than the API server takes is refused before its end", async () => {
  const sessionSecret = Buffer.alloc(32, 1);
  const session = { token: "t", user: "ada", untilMs: Date.now() + 60_000 };
  const cookie = `metalbridge=${createSeal(sessionSecret).seal("metalbridge", session)}`;
  const long = { ...call, "content-type": "application/json", "content-length": String((3 << 20) + 1) };
  const url = "/console/k8s/apis/metalbridge.dev/v1alpha1/namespaces/a/models";
  const statusOf = async (headers: Record<string, string>) =>
    (await start({ sessionSecret }).inject({ method: "POST", url, headers, payload: "{" })).statusCode;
  expect([await statusOf(long), await statusOf({ ...long, cookie })]).toEqual([401, 413]);
});

test("a session without a token is only accepted where the server's own credentials are meant", async () => {
  const sessionSecret = Buffer.alloc(32, 1);
  const value = createSeal(sessionSecret).seal("metalbridge", { user: "", untilMs: Date.now() + 60_000 });
  const headers = { ...call, cookie: `metalbridge=${value}` };
  const status = async (changed: Partial<ConsoleOptions>) =>
    (
      await start({ sessionSecret, ...changed }).inject({
        method: "POST",
        url: "/console/rights",
        headers,
        payload: "{}",
      })
    ).statusCode;
  expect(await status({})).toBe(401);
  expect(await status({ codes: { current: () => "", redeem: () => false } })).toBe(400);
});

test("the density API still requires a token of those without a session", async () => {
  const answer = await start().inject({ url: "/api/v1/density/nodes", headers: call });
  expect(answer.statusCode).toBe(401);
});
