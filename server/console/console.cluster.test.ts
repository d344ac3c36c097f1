/** The console against the real API server: sign-in, rights of a limited user, passed-on requests, revoked tokens. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { GROUP } from "../../src/api/group.ts";
import { MODELS } from "../../src/api/kinds.ts";
import { CONSOLE_HEADER } from "../../src/console/protocol.ts";
import { KEY_FIELD, keySecret, readKeySecret } from "../../src/gateway/key-secret.ts";
import { SECRETS } from "../../src/kube/kinds.ts";
import type { Secret } from "../../src/kube/objects.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { must } from "../../test/bed/must.ts";
import { until } from "../../test/bed/until.ts";
import { manifest } from "../../test/fixtures/manifests.ts";
import type { MountRoutes } from "./reader.ts";
import { createCodes } from "./sign-in.ts";
import {
  type ConsoleRig,
  consoleHeaders,
  openConsoleRig,
  signIn,
  unreachableKubeconfig,
} from "./testing/console-rig.ts";

const stack = new AsyncDisposableStack();
let rig: ConsoleRig;
beforeAll(async () => {
  rig = stack.use(await openConsoleRig());
});
afterAll(() => stack.disposeAsync());

const start: ConsoleRig["start"] = (changed) => rig.start(changed);
const tokenOf: ConsoleRig["tokenOf"] = (account, rules) => rig.tokenOf(account, rules);

const OURS = {
  apiGroups: [GROUP],
  resources: ["models", "models/scale"],
  verbs: ["get", "list", "create", "patch"],
};
const models = () => `/console/k8s/apis/metalbridge.dev/v1alpha1/namespaces/${rig.namespace}/models`;

test("a token becomes a cookie that scripts cannot read, and gives the name of its account", async () => {
  const app = start();
  const token = await tokenOf("ada");
  const { answer, cookie, get } = await signIn(app, { token });
  expect(answer.statusCode).toBe(200);
  const user = `system:serviceaccount:${rig.namespace}:ada`;
  expect(answer.json()).toMatchObject({ user, isReadOnly: false, hasGateway: false, version: "1.2.3" });
  expect(Date.parse(answer.json().expiresAt)).toBeGreaterThan(Date.now());
  expect(cookie).toMatchObject({ name: "metalbridge", httpOnly: true, sameSite: "Strict", path: "/" });
  expect(cookie?.value).not.toContain(token.slice(-20));
  expect((await get("/console/session")).json()).toMatchObject({ user });
});

test("the cookie is only sent over TLS where the browser uses TLS", async () => {
  const app = start();
  const token = await tokenOf("tls-user");
  const tls = { ...consoleHeaders, host: "console.example", "x-forwarded-proto": "https, http" };
  const payload = JSON.stringify({ token });
  const answer = await app.inject({ method: "POST", url: "/console/session", headers: tls, payload });
  expect(answer.cookies).toMatchObject([{ name: "__Host-metalbridge", secure: true, httpOnly: true }]);
  // Two consoles on one machine share its cookies.
  const local = { ...consoleHeaders, host: "127.0.0.1:8123" };
  const other = await app.inject({ method: "POST", url: "/console/session", headers: local, payload });
  expect(other.cookies).toMatchObject([{ name: "metalbridge-8123", httpOnly: true }]);
  expect(other.cookies[0]).not.toHaveProperty("secure");
});

test.each([
  ["made up", "made.up.token"],
  ["not a token", "x"],
])("a %s token is refused with a remedy", async (_, token) => {
  const { answer } = await signIn(start(), { token });
  expect([answer.statusCode, answer.cookies]).toEqual([401, []]);
  expect(answer.json()).toMatchObject({
    code: "ConsoleSignInRefused",
    remedy: expect.stringContaining("kubectl create token"),
  });
});

test("a token or key with a character that no header carries is refused with that reason", async () => {
  const { answer } = await signIn(start(), { token: "a.b\u2026c" });
  expect([answer.statusCode, answer.json()]).toMatchObject([
    400,
    {
      message: expect.stringContaining("not ASCII"),
      remedy: expect.stringContaining("copy the token again"),
    },
  ]);
  const { send } = await signIn(start(), { token: await tokenOf("pasted") });
  const key = await send("POST", "/console/gateway-key", { key: "mbk_\u00e4" });
  expect(key.json()).toMatchObject({ message: expect.stringContaining("the key has") });
});

test("a revoked token ends the session with the next call, everywhere", async () => {
  const { namespace } = rig;
  const app = start();
  const { get, send } = await signIn(app, { token: await tokenOf("leaver", [OURS]) });
  expect((await get(models())).statusCode).toBe(200);
  must(await rig.client.remove(SECRETS, { name: "leaver", namespace }));
  // The API server remembers for ten seconds that it has accepted a token.
  await until(async () => expect((await get(models())).statusCode).toBe(401));
  const questions = [{ verb: "get", group: GROUP, resource: "models", namespace }];
  for (const answer of [
    await get(models()),
    await get("/console/session"),
    await send("POST", "/console/rights", { questions }),
  ])
    expect([answer.statusCode, answer.json()]).toMatchObject([401, { code: "SignInNeeded", by: "token" }]);
});

test("a stream has no reader any more once the session of its request has expired", async () => {
  let aheadMs = 0;
  const clock = { ...systemClock, nowMs: () => systemClock.nowMs() + aheadMs };
  const mountStream: MountRoutes = (scope, { readerOf }) => {
    scope.get("/console/long", { config: { calledBy: "stream" } }, async (request) => {
      const before = await readerOf(request);
      aheadMs = 13 * 3_600_000;
      return [before?.user, await readerOf(request)];
    });
  };
  const { answer, get } = await signIn(start({ clock, routes: [mountStream] }), {
    token: await tokenOf("watcher"),
  });
  expect((await get("/console/long")).json()).toEqual([answer.json().user, null]);
});

test("sign-out removes the cookie", async () => {
  const app = start();
  const { send } = await signIn(app, { token: await tokenOf("brief") });
  const answer = await send("DELETE", "/console/session");
  expect([answer.statusCode, answer.cookies[0]?.value, answer.cookies[0]?.maxAge]).toEqual([204, "", 0]);
});

test("rights are the reader's own", async () => {
  const { namespace } = rig;
  const { send } = await signIn(start(), { token: await tokenOf("limited", [OURS]) });
  const questions = [
    { verb: "create", group: GROUP, resource: "models", namespace },
    { verb: "delete", group: GROUP, resource: "models", namespace },
    { verb: "create", group: GROUP, resource: "models", namespace: "default" },
    { verb: "patch", group: "", resource: "nodes", name: "gpu-1" },
    { verb: "patch", group: GROUP, resource: "models", subresource: "scale", namespace },
  ];
  const answer = await send("POST", "/console/rights", { questions });
  expect(answer.json()).toEqual({ allowed: [true, false, false, false, true] });
  const many = await send("POST", "/console/rights", { questions: Array(65).fill(questions[0]) });
  expect(many.json()).toMatchObject({ code: "ConsoleRequestInvalid" });
});

test("the API server's answers arrive unchanged: created, refused by a field, forbidden, missing", async () => {
  const { namespace } = rig;
  const { get, send } = await signIn(start(), { token: await tokenOf("author", [OURS]) });
  const tiny = manifest("Model", "tiny", namespace);
  const created = await send("POST", `${models()}?fieldManager=console`, tiny);
  expect([created.statusCode, created.json()]).toMatchObject([201, { metadata: { name: "tiny" } }]);
  const invalid = await send("POST", `${models()}?dryRun=All`, {
    ...manifest("Model", "bad", namespace),
    spec: {},
  });
  expect(invalid.json()).toMatchObject({
    code: 422,
    kind: "Status",
    details: { causes: expect.arrayContaining([expect.objectContaining({ field: "spec.source" })]) },
  });
  expect(invalid.statusCode).toBe(422);
  const applied = await send(
    "PATCH",
    `${models()}/tiny?fieldManager=console&force=true`,
    { ...tiny, metadata: { name: "tiny", namespace, labels: { by: "console" } } },
    "application/apply-patch+yaml",
  );
  expect(applied.json()).toMatchObject({ metadata: { labels: { by: "console" } } });
  expect((await send("DELETE", `${models()}/tiny`)).json()).toMatchObject({ kind: "Status", code: 403 });
  expect((await get(`${models()}/absent`)).json()).toMatchObject({ kind: "Status", code: 404 });
  expect((await get("/console/k8s/version")).json()).toHaveProperty("gitVersion");
});

test("read-only mode allows reading, reviews and dry runs", async () => {
  const { namespace } = rig;
  const { get, send } = await signIn(start({ isReadOnly: true }), {
    token: await tokenOf("viewer", [{ ...OURS, verbs: [...OURS.verbs, "delete"] }]),
  });
  const model = manifest("Model", "viewed", namespace);
  expect((await get("/console/session")).json()).toMatchObject({ isReadOnly: true });
  expect((await get(models())).statusCode).toBe(200);
  expect((await send("POST", models(), model)).json()).toMatchObject({ code: "ConsoleReadOnly" });
  expect((await send("POST", `${models()}?dryRun=All`, model)).statusCode).toBe(201);
  const path = `${models()}/viewed?dryRun=All`;
  must(await rig.client.create(MODELS, model as never));
  expect((await send("DELETE", path)).statusCode).toBe(200);
  const options = { kind: "DeleteOptions", apiVersion: "v1", propagationPolicy: "Background" };
  expect((await send("DELETE", path, options)).json()).toMatchObject({ code: "ConsoleRequestInvalid" });
  expect((await get(`${models()}/viewed`)).statusCode).toBe(200);
  const shifted = await get(models().replace("/k8s", "/k8%73"));
  expect(shifted.json()).toMatchObject({ code: "ConsoleRequestInvalid" });
  const reviews = "/console/k8s/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
  const review = {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SelfSubjectRulesReview",
    spec: { namespace },
  };
  expect((await send("POST", reviews, review)).statusCode).toBe(201);
});

test("keys of the gateway are listed and created without any hash, and other Secrets not at all", async () => {
  const { namespace } = rig;
  const secrets = { apiGroups: [""], resources: ["secrets"], verbs: ["get", "list", "create"] };
  const { get, send } = await signIn(start(), { token: await tokenOf("key-admin", [secrets]) });
  const path = `/console/k8s/api/v1/namespaces/${namespace}/secrets`;
  const sha256 = "ab".repeat(32);
  const key = keySecret(namespace, "team", {
    hashes: [{ sha256, hint: "mbk_abcd", createdAt: "2026-11-27T00:00:00Z" }],
    owner: "Ada",
    scope: "all",
    limits: {},
    priority: "normal",
    weight: 1,
  });
  const other = { metadata: { name: "password", namespace }, stringData: { password: "hunter2" } };
  must(await rig.client.create(SECRETS, other as unknown as Secret));
  const full = { apiVersion: "v1", kind: "Secret", ...key };
  for (const answer of [await send("POST", path, full), await get(path)]) {
    expect(answer.statusCode).toBeLessThan(300);
    expect(answer.body).not.toMatch(/hunter2|password/);
    const found: Secret = answer.json().items?.[0] ?? answer.json();
    expect(readKeySecret(found)).toMatchObject({ at: "valid", id: "team", key: { owner: "Ada" } });
    const content = Buffer.from(found.data?.[KEY_FIELD] ?? "", "base64").toString();
    expect(content).toContain("mbk_abcd");
    expect(content).not.toContain(sha256);
  }
  expect((await get(path)).json().items).toHaveLength(1);
  expect((await get(`${path}/password`)).json()).toMatchObject({ code: "ConsoleKindNotServed" });
  const unlabeled = await send("POST", path, { ...full, metadata: { name: "x", namespace } });
  expect(unlabeled.json()).toMatchObject({
    code: "ConsoleRequestInvalid",
    message: expect.stringContaining("metadata.labels"),
  });
});

test("a node can be cordoned, and nothing else of it changed", async () => {
  const { send } = await signIn(start(), { token: await tokenOf("operator") });
  const patch = (body: object) =>
    send("PATCH", "/console/k8s/api/v1/nodes/gpu-1", body, "application/merge-patch+json");
  // The API server decides about the reader; the account may not.
  expect((await patch({ spec: { unschedulable: true } })).json()).toMatchObject({
    kind: "Status",
    code: 403,
  });
  for (const body of [
    { spec: { taints: [] } },
    { metadata: { labels: {} } },
    { spec: { unschedulable: true, x: 1 } },
  ])
    expect((await patch(body)).json()).toMatchObject({ code: "ConsoleRequestInvalid" });
});

test("a one-time code signs in once, with the kubeconfig's own rights", async () => {
  let next = "";
  const codes = createCodes((code) => {
    next = code;
  });
  const app = start({ codes, isOnLoopback: true });
  const first = codes.current();
  const { answer, send } = await signIn(app, { code: first });
  expect(answer.statusCode).toBe(200);
  expect(answer.json().user).not.toBe("");
  const questions = [{ verb: "delete", group: "", resource: "nodes" }];
  expect((await send("POST", "/console/rights", { questions })).json()).toEqual({ allowed: [true] });
  expect((await signIn(app, { code: first })).answer.json()).toMatchObject({ code: "ConsoleSignInRefused" });
  expect((await signIn(app, { code: next })).answer.statusCode).toBe(200);
});

test("the density API accepts the session of a reader with the right, and only with the console's header", async () => {
  const app = start();
  const density = { apiGroups: [GROUP], resources: ["density/nodes"], verbs: ["get"] };
  const inNamespace = await signIn(app, { token: await tokenOf("fit-reader", [density]) });
  // A right in one namespace does not reach machines, which have none.
  expect((await inNamespace.get("/api/v1/density/nodes")).statusCode).toBe(403);
  const codes = createCodes(() => {});
  const local = start({ codes });
  const admin = await signIn(local, { code: codes.current() });
  expect((await admin.get("/api/v1/density/nodes")).statusCode).toBe(200);
  const { [CONSOLE_HEADER]: _, ...plain } = admin.signed;
  const forged = await local.inject({ url: "/api/v1/density/nodes", headers: plain });
  expect(forged.statusCode).toBe(401);
});

test("an API server that is down ends no session", async () => {
  const { answer, signed } = await signIn(start({ sessionSecret: Buffer.alloc(32, 7) }), {
    token: await tokenOf("patient"),
  });
  expect(answer.statusCode).toBe(200);
  const app = start({
    sessionSecret: Buffer.alloc(32, 7),
    cluster: { kubeconfigPath: await unreachableKubeconfig(stack) },
  });
  expect((await app.inject({ url: "/console/session", headers: signed })).statusCode).toBe(200);
  const refused = await app.inject({ url: models(), headers: signed });
  expect([refused.statusCode, refused.json()]).toMatchObject([503, { code: "ApiUnreachable" }]);
});
