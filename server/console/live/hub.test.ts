import { expect, test } from "vitest";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { AccessQuestion } from "../../../src/console/protocol.ts";
import { aMac, aModel, aPod, aReplica, aService, condition, GIB } from "../fixtures/objects.ts";
import { type Browser, createLiveRig, type Rights } from "./testing/live-rig.ts";

const ready = { phase: "Ready" as const, readyReplicas: 1, desiredReplicas: 1 };
const teamA = (name: string) => aService(name, ready, { namespace: "team-a" });
const teamB = (name: string) => aService(name, ready, { namespace: "team-b" });

/** May list in namespace team-a, and hosts. */
const ofTeamA: Rights = ({ namespace, resource, verb }) =>
  namespace === "team-a" || (resource === "hosts" && verb === "list");

const keysOf = (browser: Browser) =>
  browser.take().flatMap(({ set, gone }) => [...set.map(([key]) => key), ...gone.map((key) => `-${key}`)]);

test("a change is computed once and written as the same bytes to all streams", async () => {
  using rig = createLiveRig();
  rig.put("services", teamA("chat"));
  const consoles = Array.from({ length: 20 }, (_, index) => rig.open({ id: `reader-${index}` }));
  for (const { show } of consoles) await show("services");
  for (const { browser } of consoles)
    expect(browser.take()).toEqual([
      { topic: "services", isAll: true, set: [["team-a/chat", expect.anything()]], gone: [] },
    ]);
  await rig.flush();
  rig.counts.rows = 0;
  rig.put("services", aService("chat", { ...ready, phase: "Degraded" }, { namespace: "team-a" }));
  rig.put("services", teamB("other"));
  await rig.flush();
  expect(rig.counts.rows).toBe(2);
  const last = consoles.map(({ browser }) => browser.chunks.at(-1));
  expect(new Set(last).size).toBe(1);
  expect(keysOf(consoles[0]?.browser as Browser)).toEqual(["team-a/chat", "team-b/other"]);
});

test("an object that changes without a change of its row sends nothing", async () => {
  using rig = createLiveRig();
  rig.put("services", teamA("chat"));
  const { browser, show } = rig.open();
  await show("services");
  await rig.flush();
  browser.take();
  rig.put("hosts", aMac("mac-9"));
  rig.put("replicas", aReplica("chat-0", undefined, { namespace: "elsewhere" }));
  await rig.flush();
  expect(browser.take()).toEqual([]);
});

test("an object of a later version is shown by its own words", async () => {
  using rig = createLiveRig();
  const status = { phase: "Hibernating", conditions: [{ type: "Later" }], later: [] };
  rig.put("services", { ...teamA("later"), status } as unknown as InferenceService);
  rig.put("services", { ...teamA("bare"), spec: {} } as unknown as InferenceService);
  const { browser, show } = rig.open();
  await show("services");
  expect(browser.take().flatMap(({ set }) => set)).toMatchObject([
    ["team-a/later", { state: { word: "Hibernating", level: "idle" } }],
    ["team-a/bare", { state: { word: "Ready" } }],
  ]);
});

test("a deleted object is gone, with the part that it has in other rows", async () => {
  using rig = createLiveRig();
  const replica = aReplica(
    "chat-0",
    { phase: "Ready" },
    { namespace: "team-a", "spec.memory.claimBytes": GIB },
  );
  rig.put("hosts", aMac("mac-1"));
  rig.put("services", teamA("chat"));
  rig.put("replicas", replica);
  const { browser, show } = rig.open();
  await show("hosts", "services", "host/mac-1");
  expect(browser.take().flatMap(({ set }) => set)).toMatchObject([
    ["host/mac-1", { claims: [{ service: "team-a/chat", replica: "chat-0" }] }],
    ["team-a/chat", { hosts: ["mac-1"], claimedBytes: GIB }],
    ["host", { apiVersion: "metalbridge.dev/v1alpha1", kind: "Host", metadata: { name: "mac-1" } }],
    ["replica/team-a/chat-0", { kind: "InferenceReplica" }],
  ]);
  rig.drop("replicas", replica);
  await rig.flush();
  expect(browser.take()).toMatchObject([
    { topic: "hosts", set: [["host/mac-1", { claims: [] }]], gone: [] },
    { topic: "services", set: [["team-a/chat", { hosts: [] }]], gone: [] },
    { topic: "host/mac-1", set: [], gone: ["replica/team-a/chat-0"] },
  ]);
  rig.drop("services", teamA("chat"));
  await rig.flush();
  expect(browser.take()).toMatchObject([{ topic: "services", set: [], gone: ["team-a/chat"] }]);
});

test("a reader of one namespace gets neither rows nor deletions of others, and claims of others without names", async () => {
  using rig = createLiveRig();
  rig.put("hosts", aMac("mac-1"));
  for (const service of [teamA("chat"), teamB("secret")]) rig.put("services", service);
  rig.put("replicas", aReplica("chat-0", undefined, { namespace: "team-a" }));
  const other = { namespace: "team-b", "spec.template.serviceName": "secret", "spec.memory.claimBytes": GIB };
  rig.put("replicas", aReplica("secret-0", undefined, other));
  const { browser, show } = rig.open({ may: ofTeamA });
  await show("hosts", "services");
  expect(browser.take().flatMap(({ set }) => set)).toMatchObject([
    [
      "host/mac-1",
      {
        claims: [
          { service: "", replica: "", bytes: GIB },
          { service: "team-a/chat", replica: "chat-0" },
        ],
      },
    ],
    ["team-a/chat", {}],
  ]);
  rig.put("services", teamB("secret"));
  rig.put("services", teamB("more"));
  rig.drop("services", teamB("secret"));
  await rig.flush();
  expect(browser.take()).toEqual([]);
  expect(browser.chunks.join("")).not.toContain("secret");
});

test("a service that the server has not listed, or may not list, is not shown as absent", async () => {
  using rig = createLiveRig();
  const { services } = rig.stores;
  services.isSynced = () => false;
  services.covers = (namespace) => namespace === "team-a";
  const { browser, show } = rig.open();
  await show("service/team-a/chat", "service/team-b/chat");
  expect(browser.events.map(({ event, data }) => [event, data.topic])).toEqual([
    ["hello", undefined],
    ["refused", "service/team-b/chat"],
  ]);
  expect(browser.take("refused")).toMatchObject([
    {
      message: "You may not list inferenceservices.",
      remedy: "Show its namespace instead: `metalbridge console -n team-b`",
    },
  ]);
  rig.put("services", teamA("chat"));
  services.isSynced = () => true;
  rig.hub.synced();
  await rig.flush();
  expect(browser.take()).toMatchObject([{ topic: "service/team-a/chat", set: [["service", {}]] }]);
});

test("a reader of a namespace without objects sees that it is empty", async () => {
  using rig = createLiveRig();
  rig.put("services", teamB("secret"));
  const { browser, show } = rig.open({ may: ofTeamA, namespace: "team-a" });
  await show("services");
  expect(browser.events.slice(1)).toEqual([
    { event: "rows", data: { topic: "services", isAll: true, set: [], gone: [] } },
  ]);
});

test("a browser that stopped reading gets each row once when it reads again, in its latest state", async () => {
  using rig = createLiveRig();
  for (const name of ["a", "b"]) rig.put("services", teamA(name));
  const { browser, show } = rig.open();
  await show("services");
  await rig.flush();
  browser.take();
  browser.room = 0;
  for (const readyReplicas of [2, 3, 4]) {
    rig.put("services", aService("a", { ...ready, readyReplicas }, { namespace: "team-a" }));
    await rig.flush();
  }
  rig.drop("services", teamA("b"));
  await rig.flush();
  expect(browser.events).toEqual([]);
  browser.read();
  await rig.flush();
  expect(browser.take()).toMatchObject([{ set: [["team-a/a", { ready: 4 }]], gone: ["team-a/b"] }]);
});

test("a long list comes in parts that say so, and each waits for the browser", async () => {
  using rig = createLiveRig();
  for (let index = 0; index < 1_000; index += 1) rig.put("services", teamA(`chat-${index}`));
  const { browser, show } = rig.open();
  browser.room = 100;
  await show("services");
  expect(browser.take()).toHaveLength(1);
  browser.read();
  await rig.flush();
  const rest = browser.take();
  expect(rest.length).toBeGreaterThan(1);
  expect(rest.map(({ isAll, hasMore = false }) => [isAll, hasMore]).slice(-2)).toEqual([
    [undefined, true],
    [undefined, false],
  ]);
});

test("topics that stay are not sent again", async () => {
  using rig = createLiveRig();
  rig.put("services", teamA("chat"));
  rig.put("models", aModel("tiny"));
  const { browser, show } = rig.open();
  await show("services");
  browser.take();
  await show("services", "models");
  expect(browser.take()).toMatchObject([{ topic: "models", isAll: true }]);
  await show("models");
  rig.put("services", teamB("other"));
  await rig.flush();
  expect(browser.take()).toEqual([]);
});

test("a revoked right takes the rows away with the next check, and a new one brings them", async () => {
  using rig = createLiveRig();
  rig.put("services", teamA("chat"));
  const rights = { isAllowed: true };
  const { browser, show } = rig.open({ may: () => rights.isAllowed });
  await show("services");
  browser.take();
  rights.isAllowed = false;
  await rig.beat();
  await rig.beat();
  expect(browser.events).toMatchObject([
    { event: "beat" },
    { event: "beat" },
    { event: "rows", data: { isAll: true, set: [] } },
    {
      event: "refused",
      data: {
        topic: "services",
        code: "ApiForbidden",
        message: "You may not list inferenceservices.",
      },
    },
  ]);
  browser.take();
  rig.put("services", teamB("other"));
  await rig.beat();
  expect(browser.events.map(({ event }) => event)).toEqual(["beat"]);
  browser.take();
  rights.isAllowed = true;
  await rig.beat();
  expect(keysOf(browser)).toEqual(["team-a/chat", "team-b/other"]);
});

test("a reader of one namespace of many is asked about once, however many topics and streams are open", async () => {
  using rig = createLiveRig();
  const namespaces = Array.from({ length: 300 }, (_, index) => `team-${index}`);
  for (const namespace of namespaces) rig.put("services", aService("chat", ready, { namespace }));
  let questions = 0;
  let concurrent = 0;
  let most = 0;
  const may = async ({ namespace }: AccessQuestion): Promise<boolean> => {
    questions += 1;
    concurrent += 1;
    most = Math.max(most, concurrent);
    await Promise.resolve();
    concurrent -= 1;
    return namespace === "team-7";
  };
  const streams = [rig.open({ may }), rig.open({ may })];
  for (const { show } of streams) await show("hosts", "services", "models", "farm", "queues");
  for (const { browser } of streams) expect(keysOf(browser)).toContain("team-7/chat");
  // Services and Models by namespace, and each kind in all of them.
  expect(questions).toBeLessThan(620);
  expect(most).toBeLessThanOrEqual(4);
  questions = 0;
  for (const _ of [1, 2, 3]) await rig.beat();
  expect(questions).toBeLessThan(20);
});

test("while the API server is away, what was allowed continues, and new topics wait", async () => {
  using rig = createLiveRig();
  rig.put("services", teamA("chat"));
  const server = { isAway: false };
  const may = async () => {
    if (server.isAway) throw new MetalbridgeError("ApiUnavailable", "etcd leader changed");
    return true;
  };
  const { browser, show } = rig.open({ may });
  await show("services");
  server.isAway = true;
  await rig.beat();
  await rig.beat();
  browser.take();
  await show("services", "models");
  expect(browser.take("refused")).toMatchObject([{ topic: "models", code: "ApiUnavailable" }]);
  rig.put("services", teamB("other"));
  await rig.flush();
  expect(keysOf(browser)).toEqual(["team-b/other"]);
  server.isAway = false;
  await rig.beat();
  await rig.beat();
  expect(browser.take()).toMatchObject([{ topic: "models", isAll: true }]);
});

test("the stream of a session that has expired ends with a refusal", async () => {
  using rig = createLiveRig();
  const session = { isOpen: true };
  const { browser, show } = rig.open({ isSignedIn: async () => session.isOpen });
  await show("services");
  session.isOpen = false;
  await rig.beat();
  expect(browser.take("refused")).toMatchObject([{ topic: "services", code: "SignInNeeded" }]);
  expect([browser.writableEnded, rig.hub.streams]).toEqual([true, 0]);
  const revoked = rig.open({
    may: () => {
      throw new MetalbridgeError("ApiUnauthorized", "the token is revoked");
    },
  });
  await expect(revoked.show("services")).rejects.toThrow("revoked");
  await rig.beat();
  expect(revoked.browser.writableEnded).toBe(true);
});

test("a host that stops reporting is stale with the next beat, although no object changes", async () => {
  using rig = createLiveRig();
  rig.put("hosts", aMac("mac-1", [condition("Ready", "True", "AgentReady")]));
  rig.density.leaseRenewed("mac-1", rig.clock.nowMs(), {
    wallMs: rig.clock.nowMs(),
    monotonicMs: rig.clock.monotonicMs(),
  });
  const { browser, show } = rig.open();
  await show("hosts");
  expect(browser.take()).toMatchObject([{ set: [["host/mac-1", { isStale: false }]] }]);
  rig.clock.advance(90_000);
  await rig.beat();
  expect(browser.take()).toMatchObject([
    {
      set: [
        [
          "host/mac-1",
          {
            isStale: true,
            state: { word: "Stale" },
            lastSeen: expect.any(String),
            attention: { level: "warn" },
          },
        ],
      ],
    },
  ]);
});

test("the farm is summed for each reader, with a history that goes back before the stream", async () => {
  using rig = createLiveRig();
  const fast = (namespace: string, tokensPerSecond: number) =>
    aService("chat", { ...ready, performance: { tokensPerSecond } }, { namespace });
  rig.put("services", fast("team-a", 10));
  rig.put("services", fast("team-b", 20));
  rig.put("hosts", aMac("mac-1"));
  rig.clock.advance(15_000);
  await rig.flush();
  const all = rig.open();
  const some = rig.open({ id: "some", may: ofTeamA });
  await all.show("farm");
  await some.show("farm");
  const rowOf = ({ browser }: typeof all) => browser.take().flatMap(({ set }) => set.map(([, row]) => row));
  expect(rowOf(all)).toMatchObject([
    { services: { ready: 2, total: 2 }, tokensPerSecond: 30, history: [30], budgetBytes: 48 * GIB },
  ]);
  expect(rowOf(some)).toMatchObject([{ services: { ready: 1, total: 1 }, history: [10] }]);
  rig.put("services", fast("team-a", 12));
  await rig.flush();
  expect(rowOf(some)).toMatchObject([{ tokensPerSecond: 12, history: [10] }]);
});

test("a detail has whole objects without managedFields, and pods only for those who may list them", async () => {
  using rig = createLiveRig();
  const service = aService("chat", ready);
  service.metadata.managedFields = [{ manager: "kubectl" }];
  rig.put("services", service);
  rig.put("pods", aPod("chat-x", "chat", "gpu-1"));
  rig.put("replicas", aReplica("chat-0"));
  const asked: AccessQuestion[] = [];
  const { browser, show } = rig.open({
    may: (question) => {
      asked.push(question);
      return question.resource !== "pods";
    },
  });
  await show("service/default/chat");
  const [rows] = browser.take();
  expect(rows?.set.map(([key]) => key)).toEqual(["service", "replica/chat-0"]);
  expect(rows?.set[0]?.[1]).toMatchObject({ kind: "InferenceService", spec: { modelRef: "tiny" } });
  expect(JSON.stringify(rows)).not.toContain("managedFields");
  expect(asked[0]).toMatchObject({
    verb: "get",
    resource: "inferenceservices",
    namespace: "default",
    name: "chat",
  });
});

test("streams learn since when the API server is away, those that open meanwhile too", async () => {
  using rig = createLiveRig();
  const early = rig.open({ id: "early" });
  rig.hub.setAway(1_000);
  const late = rig.open({ id: "late" });
  for (const { browser } of [early, late]) expect(browser.take("cluster")).toEqual([{ awaySinceMs: 1_000 }]);
  rig.hub.setAway(undefined);
  expect(late.browser.take("cluster")).toEqual([{}]);
});
