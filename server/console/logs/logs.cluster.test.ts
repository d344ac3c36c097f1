/** The console's log stream: pods by the real API server and a kubelet that has only logs, replicas on this machine by a file. */
import { once } from "node:events";
import { type IncomingMessage, request as requestHttp } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LABEL_SERVICE } from "../../../src/api/group.ts";
import type { LogLine } from "../../../src/console/protocol.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import { serveLogs } from "../../../test/bed/kubelet-logs.ts";
import { until } from "../../../test/bed/until.ts";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { manifest, withFields } from "../../../test/fixtures/manifests.ts";
import { type ConsoleRig, consoleHeaders, openConsoleRig, signIn } from "../testing/console-rig.ts";
import { createLogs } from "./logs.ts";

const LOG = [
  "2026-11-27T20:00:00.5Z \u001b[32mserver\u001b[0m listens",
  "2026-11-27T20:00:01Z request 1",
  "2026-11-27T20:00:02Z \u001b]0;title\u0007 \u202ereversed",
];
const { kubectl, objects } = sharedCluster();
const stack = new AsyncDisposableStack();
const node = `logs-${process.pid}`;
let rig: ConsoleRig;
let asked: readonly string[];

beforeAll(async () => {
  rig = stack.use(await openConsoleRig());
  const { namespace } = rig;
  const metadata = { namespace, labels: { [LABEL_SERVICE]: "chat" } };
  await objects.apply(
    { apiVersion: "v1", kind: "Node", metadata: { name: node } },
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "default", namespace } },
  );
  stack.defer(() => objects.remove("", `node/${node}`));
  const kubelet = stack.use(await serveLogs(kubectl, node, () => `${LOG.join("\n")}\n`));
  asked = kubelet.asked;
  const containers = [{ name: "engine", image: "x" }];
  await objects.apply({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...metadata, name: "chat-pod" },
    spec: { nodeName: node, containers, automountServiceAccountToken: false },
  });
  const irep = withFields(manifest("InferenceReplica", "chat-0", namespace), {
    "metadata.labels": metadata.labels,
  });
  await objects.apply(irep);
});
afterAll(() => stack.disposeAsync());

async function* fromThisMachine(): AsyncGenerator<Buffer> {
  yield Buffer.from("first line\nrequest 2\nunfin");
  yield Buffer.from("ished");
}

const RIGHTS = [
  { apiGroups: [""], resources: ["pods", "pods/log"], verbs: ["get", "list"] },
  { apiGroups: ["metalbridge.dev"], resources: ["inferencereplicas"], verbs: ["get", "list"] },
];
const linesOf = (body: string) =>
  body
    .split("\n")
    .filter((line) => line !== "")
    .map((line): LogLine => JSON.parse(line));
const url = (query: string) => `/console/logs?namespace=${rig.namespace}&service=chat${query}`;

test("the lines of pods and of this machine come with their replica, without control characters, filtered", async () => {
  const app = rig.start({
    routes: [createLogs({ clock: systemClock, readLocalLog: () => fromThisMachine() })],
  });
  const { get } = await signIn(app, { token: await rig.tokenOf("log-reader", RIGHTS) });
  const all = await get(url("&tail=50"));
  expect(all.headers["content-type"]).toBe("application/x-ndjson; charset=utf-8");
  const lines = linesOf(all.body);
  expect(lines.filter(({ replica }) => replica === "chat-pod")).toEqual([
    { at: "2026-11-27T20:00:00.5Z", line: "server listens", replica: "chat-pod" },
    { at: "2026-11-27T20:00:01Z", line: "request 1", replica: "chat-pod" },
    { at: "2026-11-27T20:00:02Z", line: "\\u001b]0;title\\u0007 \\u202ereversed", replica: "chat-pod" },
  ]);
  expect(lines.filter(({ replica }) => replica === "chat-0").map(({ line }) => line)).toEqual([
    "first line",
    "request 2",
    "unfinished",
  ]);
  expect(asked.at(-1)).toMatch(/tailLines=50&timestamps=true$/);
  const filtered = linesOf((await get(url("&filter=/request%20[0-9]/"))).body);
  expect(filtered.map(({ line }) => line).sort()).toEqual(["request 1", "request 2"]);
  const one = linesOf((await get(url("&replica=chat-0&filter=FIRST"))).body);
  expect(one).toEqual([{ line: "first line", replica: "chat-0" }]);
});

test("a log that cannot be read is a note beside the others, and a refusal if it is alone", async () => {
  const app = rig.start({ routes: [createLogs({ clock: systemClock })] });
  const { get } = await signIn(app, { token: await rig.tokenOf("pod-reader", RIGHTS) });
  const notes = linesOf((await get(url(""))).body).filter(({ isNote }) => isNote === true);
  // The reader may not read hosts.
  expect(notes).toEqual([
    { replica: "chat-0", isNote: true, line: expect.stringContaining("You may not get hosts") },
  ]);
  const alone = await get(url("&replica=chat-0"));
  expect([alone.statusCode, alone.json().code]).toEqual([403, "ApiForbidden"]);
  const absent = await get(url("&replica=other"));
  expect([absent.statusCode, absent.json().code]).toEqual([404, "ReplicaNotFound"]);
  const stranger = await signIn(app, { token: await rig.tokenOf("stranger") });
  expect((await stranger.get(url(""))).json()).toMatchObject({ code: "ApiForbidden" });
  const wrong = (await get(url("&filter=/(/"))).json();
  expect(wrong.remedy).toContain("simpler expression");
  for (const query of ["&tail=-1", "&follow=yes", "&filter=/(/", "&other=1"])
    expect((await get(url(query))).json(), query).toMatchObject({ code: "ConsoleRequestInvalid" });
});

test("a followed log stays open, and ends everywhere when the client leaves", async () => {
  const ended = Promise.withResolvers<void>();
  async function* forever(signal: AbortSignal): AsyncGenerator<Buffer> {
    yield Buffer.from("here\n");
    await once(signal, "abort");
    ended.resolve();
  }
  const readLocalLog = (_: unknown, { signal }: { readonly signal: AbortSignal }) => forever(signal);
  const app = rig.start({ routes: [createLogs({ clock: systemClock, readLocalLog })] });
  const { signed } = await signIn(app, { token: await rig.tokenOf("follower", RIGHTS) });
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const headers = { ...consoleHeaders, ...signed, host: "localhost:80" };
  const request = requestHttp({ host: "127.0.0.1", port, path: url("&follow=true"), headers });
  request.end();
  const [response] = await once(request, "response");
  const seen = new Set<string>();
  for await (const line of createInterface({ input: response })) {
    seen.add((JSON.parse(line) as LogLine).replica);
    if (seen.size === 2) break;
  }
  response.destroy();
  await ended.promise;
});

test("a reader has four open logs, and another one once one of them is closed", async () => {
  async function* forever(signal: AbortSignal): AsyncGenerator<Buffer> {
    yield Buffer.from("here\n");
    await once(signal, "abort");
  }
  const readLocalLog = (_: unknown, { signal }: { readonly signal: AbortSignal }) => forever(signal);
  const app = rig.start({ routes: [createLogs({ clock: systemClock, readLocalLog })] });
  const { signed } = await signIn(app, { token: await rig.tokenOf("collector", RIGHTS) });
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const open = async (): Promise<IncomingMessage> => {
    const headers = { ...signed, host: "localhost:80" };
    const request = requestHttp({ host: "127.0.0.1", port, path: url("&follow=true"), headers });
    request.end();
    const [response] = await once(request, "response");
    return response;
  };
  const logs = await Promise.all([open(), open(), open(), open()]);
  expect(logs.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200, 200]);
  expect((await open()).statusCode).toBe(503);
  logs[0]?.destroy();
  await until(async () => expect((await open()).statusCode).toBe(200));
});
