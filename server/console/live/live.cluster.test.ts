/** The stream of a running server on a real API server, for an administrator and for a user of one namespace. */
import { createParser } from "eventsource-parser";
import { afterAll, beforeAll, expect, test } from "vitest";
import { GROUP } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import type { RowsEvent, Topic } from "../../../src/console/protocol.ts";
import { connect } from "../../../src/kube/client/connect.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import {
  CLUSTER_ROLE_BINDINGS,
  NAMESPACES,
  ROLE_BINDINGS,
  ROLES,
  SERVICE_ACCOUNTS,
} from "../../../src/kube/kinds.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import { must } from "../../../test/bed/must.ts";
import { until } from "../../../test/bed/until.ts";
import { oneCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { createSteppedClock } from "../../../test/controller/stepped-clock.ts";
import { manifest } from "../../../test/fixtures/manifests.ts";
import { parseServerConfig } from "../../config.ts";
import { runServer } from "../../main.ts";
import { consoleHeaders } from "../testing/console-rig.ts";

const BEAT_MS = 15_000;
/** Granted rights are cached for 30 s. */
const RIGHTS_MS = 31_000;
const ROLE_KIND = "rbac.authorization.k8s.io";
const cluster = oneCluster();
const clock = createSteppedClock();
const stack = new AsyncDisposableStack();
let client: KubeClient;
let url = "";

beforeAll(async () => {
  const connection = await connect({ kubeconfigPath: cluster().kubeconfig });
  stack.defer(() => connection.close());
  client = createClient(connection);
  for (const name of ["team-a", "team-b"]) must(await client.create(NAMESPACES, { metadata: { name } }));
  const stop = new AbortController();
  const listening = Promise.withResolvers<{ readonly api: number }>();
  const config = parseServerConfig({ kubeconfig: cluster().kubeconfig, port: 0, healthPort: 0 });
  const running = runServer({
    config,
    records: [],
    version: "0.0.0",
    console: { folder: "/absent" },
    log: quietLog,
    signal: stop.signal,
    clock,
    onListening: listening.resolve,
  });
  stack.defer(async () => {
    stop.abort();
    await running;
  });
  const { api } = await Promise.race([
    listening.promise,
    running.then(() => Promise.reject(new Error("it ended"))),
  ]);
  url = `http://127.0.0.1:${api}/console`;
});
afterAll(() => stack.disposeAsync());

/** An account's cookie. `role` is bound in namespace team-a; without it, the account is an administrator. */
async function signedIn(account: string, role?: string): Promise<Record<string, string>> {
  const metadata = { name: account, namespace: "team-a" };
  must(await client.create(SERVICE_ACCOUNTS, { metadata }));
  const subjects = [{ kind: "ServiceAccount", ...metadata }];
  if (role === undefined) {
    const roleRef = { apiGroup: ROLE_KIND, kind: "ClusterRole", name: "cluster-admin" };
    must(await client.create(CLUSTER_ROLE_BINDINGS, { metadata: { name: account }, roleRef, subjects }));
  } else {
    const rules = [{ apiGroups: [GROUP], resources: ["inferenceservices"], verbs: ["get", "list"] }];
    must(await client.create(ROLES, { metadata, rules }));
    const roleRef = { apiGroup: ROLE_KIND, kind: "Role", name: role };
    must(await client.create(ROLE_BINDINGS, { metadata, roleRef, subjects }));
  }
  const token = await cluster().objects.token("team-a", account);
  const answer = await fetch(`${url}/session`, {
    method: "POST",
    headers: consoleHeaders,
    body: JSON.stringify({ token }),
  });
  expect(answer.status).toBe(200);
  const [cookie = ""] = answer.headers.getSetCookie();
  return { ...consoleHeaders, cookie: cookie.split(";")[0] ?? "" };
}

interface Received {
  readonly event: string;
  readonly data: Partial<RowsEvent> & { readonly id?: string };
}

/** A console: its events, and the rows of each topic that follow from them. */
async function openConsole(headers: Record<string, string>, topics = "") {
  const abort = new AbortController();
  stack.defer(() => abort.abort());
  const answer = await fetch(`${url}/stream?topics=${topics}`, { headers, signal: abort.signal });
  const events: Received[] = [];
  const rows = new Map<string, Map<string, unknown>>();
  const parser = createParser({
    onEvent: ({ event = "", data }) => {
      const received: Received = { event, data: JSON.parse(data) };
      events.push(received);
      const { topic = "", isAll, set = [], gone = [] } = received.data;
      if (event !== "rows") return;
      const known = (isAll ? undefined : rows.get(topic)) ?? new Map<string, unknown>();
      rows.set(topic, known);
      for (const [key, row] of set) known.set(key, row);
      for (const key of gone) known.delete(key);
    },
  });
  const state = { hasEnded: false };
  const decoder = new TextDecoder();
  void (async () => {
    for await (const chunk of answer.body ?? []) parser.feed(decoder.decode(chunk, { stream: true }));
    state.hasEnded = true;
  })().catch(() => {});
  const idOf = () => events.find(({ event }) => event === "hello")?.data.id;
  const id = await until(() => idOf() ?? Promise.reject(new Error("no hello")));
  return {
    id,
    answer,
    events,
    state,
    show: (topics: readonly Topic[], stream = id, as = headers) =>
      fetch(`${url}/stream/${stream}`, { method: "POST", headers: as, body: JSON.stringify({ topics }) }),
    keys: (topic: Topic) => [...(rows.get(topic)?.keys() ?? [])].sort(),
    row: (topic: Topic, key: string) => rows.get(topic)?.get(key),
  };
}

async function createService(namespace: string, name: string): Promise<void> {
  must(
    await client.create(
      INFERENCE_SERVICES,
      manifest("InferenceService", name, namespace) as never as InferenceService,
    ),
  );
}

test("changes reach both users, each with what it may see, until a right is revoked", async () => {
  await createService("team-a", "chat");
  const [admin, user] = await Promise.all([
    openConsole(await signedIn("admin")),
    openConsole(await signedIn("user", "user")),
  ]);
  expect(Object.fromEntries(admin.answer.headers)).toMatchObject({
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
  });
  for (const one of [admin, user]) expect((await one.show(["services", "hosts", "farm"])).status).toBe(204);
  await createService("team-b", "secret");
  await createService("team-a", "more");
  await until(() => expect(admin.keys("services")).toEqual(["team-a/chat", "team-a/more", "team-b/secret"]));
  await until(() => expect(user.keys("services")).toEqual(["team-a/chat", "team-a/more"]));
  expect(user.row("services", "team-a/chat")).toMatchObject({ phase: "Pending", model: "tiny" });
  const refused = ({ events }: typeof user) => events.filter(({ event }) => event === "refused");
  expect(refused(user)).toMatchObject([
    {
      data: {
        topic: "hosts",
        code: "ApiForbidden",
        message: "You may not list hosts.",
      },
    },
  ]);
  expect(refused(admin)).toEqual([]);
  expect(JSON.stringify(user.events)).not.toContain("secret");
  await until(() => expect(user.row("farm", "farm")).toMatchObject({ services: { total: 2 } }));
  await until(() => expect(admin.row("farm", "farm")).toMatchObject({ services: { total: 3 } }));

  must(await client.remove(ROLE_BINDINGS, { name: "user", namespace: "team-a" }));
  await until(
    () => {
      clock.advance(RIGHTS_MS);
      expect(refused(user).map(({ data }) => data.topic)).toContain("services");
    },
    { everyMs: 500 },
  );
  expect(user.keys("services")).toEqual([]);
  expect(admin.keys("services")).toHaveLength(3);
});

test("a stream belongs to its reader, and takes known topics only", async () => {
  const mine = await signedIn("mine");
  const [own, other] = [await openConsole(mine), await openConsole(await signedIn("other", "other"))];
  const foreign = await other.show(["services"], own.id);
  expect([foreign.status, await foreign.json()]).toMatchObject([404, { code: "ConsoleStreamNotFound" }]);
  for (const topics of [["secrets"], ["service/team-a"], ["host/../x"], Array(33).fill("hosts")]) {
    const answer = await own.show(topics as Topic[]);
    expect([answer.status, await answer.json()]).toMatchObject([400, { code: "ConsoleRequestInvalid" }]);
  }
  expect((await fetch(`${url}/stream`, { headers: consoleHeaders })).status).toBe(401);
  expect((await fetch(`${url}/stream?topics=secrets`, { headers: mine })).status).toBe(400);
  await own.show(["service/team-a/chat"]);
  await until(() => expect(own.keys("service/team-a/chat")).toEqual(["service"]));
  expect(own.row("service/team-a/chat", "service")).toMatchObject({
    apiVersion: `${GROUP}/v1alpha1`,
    kind: "InferenceService",
    metadata: { name: "chat" },
  });
  const more = [];
  for (let index = 0; index < 15; index += 1) more.push(await openConsole(mine));
  const full = await fetch(`${url}/stream`, { headers: mine });
  expect([full.status, await full.json()]).toMatchObject([503, { code: "ConsoleStreamsFull" }]);
});

test("the stream stays while the API server is away, and its rows continue afterwards", async () => {
  const console = await openConsole(await signedIn("patient"), "services,farm");
  await until(() => expect(console.keys("services")).toContain("team-a/chat"));
  await cluster().stopApiServer();
  const beats = () => console.events.filter(({ event }) => event === "beat").length;
  const before = beats();
  await until(
    () => {
      clock.advance(BEAT_MS);
      expect(beats()).toBeGreaterThan(before + 2);
    },
    { everyMs: 200 },
  );
  expect(console.keys("services")).toContain("team-a/chat");
  await cluster().startApiServer();
  await until(() => createService("team-a", "late"));
  await until(
    () => {
      clock.advance(5_000);
      expect(console.keys("services")).toContain("team-a/late");
    },
    { everyMs: 500 },
  );
  expect(console.events.filter(({ event }) => event === "refused")).toEqual([]);
  expect(console.state.hasEnded).toBe(false);
});
