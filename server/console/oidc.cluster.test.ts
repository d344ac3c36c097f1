/** Sign-in with a real identity provider, whose ID tokens a real API server accepts. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createDensity } from "../../fitness/density/density.ts";
import { createFitIndex } from "../../fitness/density/fits.ts";
import { CONSOLE_HEADER, type Session } from "../../src/console/protocol.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { freePort } from "../../test/bed/ports.ts";
import { until } from "../../test/bed/until.ts";
import { type PrivateCluster, startCluster } from "../../test/cluster/cluster.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { createApp } from "../rest/app.ts";
import { createConsole } from "./console.ts";
import { trustAuthority } from "./oidc.ts";
import {
  CLIENT,
  type IdentityProvider,
  openBrowser,
  startIdentityProvider,
} from "./testing/identity-provider.ts";

const stack = new AsyncDisposableStack();
let provider: IdentityProvider;
let cluster: PrivateCluster;
let origin = "";
let aheadMs = 0;

beforeAll(async () => {
  const port = await freePort();
  origin = `http://127.0.0.1:${port}`;
  provider = stack.use(await startIdentityProvider(`${origin}/console/signed-in`));
  const folder = await mkdtemp(path.join(tmpdir(), "mb-oidc-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const authority = path.join(folder, "ca.pem");
  await writeFile(authority, provider.authority);
  trustAuthority(provider.authority);
  cluster = stack.use(
    await startCluster({
      apiServerArgs: [
        `--oidc-issuer-url=${provider.issuer}`,
        `--oidc-client-id=${CLIENT.id}`,
        `--oidc-ca-file=${authority}`,
        "--oidc-username-claim=email",
        "--oidc-username-prefix=oidc:",
      ],
    }),
  );
  const clock = { ...systemClock, nowMs: () => systemClock.nowMs() + aheadMs };
  const page = createConsole({
    cluster: { kubeconfigPath: cluster.kubeconfig },
    folder: "/absent",
    version: "1.2.3",
    clock,
    log: quietLog,
    isReadOnly: false,
    isOnLoopback: true,
    oidc: {
      issuer: provider.issuer,
      clientId: CLIENT.id,
      clientSecret: CLIENT.secret,
      scopes: "openid email offline_access",
    },
  });
  const app = createApp({
    density: createDensity(createFitIndex([])),
    clock,
    log: quietLog,
    authorize: async () => ({ at: "unauthenticated" }),
    notReady: () => undefined,
    console: page,
  });
  await app.listen({ host: "127.0.0.1", port });
  stack.defer(async () => {
    await app.close();
    page.close();
  });
});
afterAll(() => stack.disposeAsync());

const isAt = (pathname: string) => (url: URL) => url.origin === origin && url.pathname === pathname;
const cookieOf = (cookies: ReadonlyMap<string, string>) =>
  [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");

test("a reader signs in at the provider, acts under that name, keeps the session by renewals, and signs out", async () => {
  const browser = openBrowser();
  const ask = (route: string, init: RequestInit = {}) =>
    fetch(`${origin}${route}`, {
      ...init,
      headers: { [CONSOLE_HEADER]: "1", cookie: cookieOf(browser.cookies) },
    });
  const first = await ask("/console/session");
  expect([first.status, await first.json()]).toMatchObject([401, { code: "SignInNeeded", by: "oidc" }]);
  const page = "/console/hosts?source=hf://a:b@c&f=(x)+y";
  // The API server needs a moment to read the keys of a provider that it has just come to know.
  await until(async () => {
    await browser.open(
      `${origin}/console/sign-in?back=${encodeURIComponent(page)}`,
      (url) => url.href === origin + page,
    );
  });
  const session = (await (await ask("/console/session")).json()) as Session;
  expect(session).toMatchObject({ user: "oidc:ada@example.org" });
  expect(Date.parse(session.expiresAt ?? "")).toBeGreaterThan(Date.now());
  const list = await ask("/console/k8s/apis/metalbridge.dev/v1alpha1/hosts");
  expect(await list.json()).toMatchObject({
    code: 403,
    message: expect.stringContaining("oidc:ada@example.org"),
  });

  const name = [...browser.cookies.keys()].find((one) => /^metalbridge-\d+$/.test(one)) ?? "";
  aheadMs = 3_570_000;
  const answers = await Promise.all(Array.from({ length: 4 }, () => ask("/console/session")));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  const renewed = answers[0]?.headers.getSetCookie().find((one) => one.startsWith(`${name}=`)) ?? "";
  expect(renewed).not.toContain(browser.cookies.get(name));
  // The density API renews as the console's own calls do.
  const density = await ask("/api/v1/density/nodes");
  expect([density.status, density.headers.getSetCookie().length]).toEqual([403, 2]);
  // A copied refresh cookie ends too, whatever the provider would accept.
  aheadMs = 13 * 3_600_000;
  expect((await ask("/console/session")).status).toBe(401);
  // The session has expired; the refresh token still starts a new one.
  browser.cookies.delete(name);
  aheadMs = 0;
  expect((await ask("/console/session")).status).toBe(200);

  const left = await ask("/console/session", { method: "DELETE" });
  const removed = left.headers.getSetCookie();
  expect(removed.filter((one) => /=; .*Max-Age=0/.test(one))).toHaveLength(2);
});

test.each([
  ["another site", "https://evil.example/"],
  ["another site without a scheme", "//evil.example/console/"],
  ["a path outside", "/api/v1/density"],
  ["two slashes", "/console//evil.example"],
  ["a folder above", "/console/../api/v1/density"],
])("a sign-in does not lead back to %s", async (_, back) => {
  const browser = openBrowser();
  const end = await browser.open(
    `${origin}/console/sign-in?back=${encodeURIComponent(back)}`,
    (url) => isAt("/console/")(url) || (url.origin !== origin && url.origin !== provider.issuer),
  );
  expect(end.href).toBe(`${origin}/console/`);
});

test.each([
  ["without the cookie of its start", ""],
  ["with another state", "&state=other"],
])("an answer of the provider %s is refused", async (_, changed) => {
  const browser = openBrowser();
  const end = await browser.open(`${origin}/console/sign-in`, isAt("/console/signed-in"));
  const headers = { cookie: changed === "" ? "" : cookieOf(browser.cookies) };
  const search = changed === "" ? end.search : end.search.replace(/&?state=[^&]*/, "") + changed;
  const answer = await fetch(`${origin}${end.pathname}${search}`, { headers, redirect: "manual" });
  expect([answer.status, answer.headers.get("location")]).toEqual([
    302,
    "/console/#sign-in-failed=ConsoleSignInRefused",
  ]);
  expect(answer.headers.getSetCookie().some((one) => /^metalbridge-\d+=[^;]/.test(one))).toBe(false);
});
