import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { getCondition } from "../src/api/conditions.ts";
import { SERVICES } from "../src/kube/kinds.ts";
import { must } from "../test/bed/must.ts";
import type { AgentSide } from "../test/controller/agent-side.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";
import { createSteppedClock } from "../test/controller/stepped-clock.ts";

const clock = createSteppedClock();
let bench: Bench;
let agent: AgentSide;
beforeAll(async () => {
  bench = await startBench({ clock });
  agent = await bench.agent("mac-1");
});
beforeEach(() => agent.renew());
/** Their services take room on the one host. */
const used = new Set<string>();
afterEach(async () => {
  for (const name of used) await bench.objects.remove(name, "isvc");
  used.clear();
});
afterAll(() => bench?.[Symbol.asyncDispose]());

async function namespace(name: string): Promise<string> {
  used.add(name);
  await bench.objects.createNamespace(name);
  await bench.model(name, "tiny");
  return name;
}

async function namespaceWithForeignService(name: string): Promise<string> {
  await namespace(name);
  await createForeignService(name);
  return name;
}

const createForeignService = (namespace: string, name = "chat", labels: object = { app: name }) =>
  bench.objects.create({
    ...{ apiVersion: "v1", kind: "Service", metadata: { name, namespace, labels } },
    spec: { selector: { app: name }, ports: [{ name: "80", port: 80 }] },
  });

const untilTaken = (ns: string) =>
  bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status).toMatchObject({ phase: "Failed", reason: "ServiceNameTaken" }),
  );

test("a Service of another owner is not touched, even when the InferenceService is deleted", async () => {
  const ns = await namespaceWithForeignService("taken");
  const before = await bench.client.get(SERVICES, { name: "chat", namespace: ns });
  await bench.apply(inferenceService(ns, "chat"));
  const service = await untilTaken(ns);
  expect(service.status?.conditions?.find(({ type }) => type === "Available")).toMatchObject({
    status: "False",
    reason: "ServiceNameTaken",
  });
  expect(await bench.replicas(ns)).toEqual([]);
  await bench.objects.remove(ns, "isvc/chat");
  expect(await bench.client.get(SERVICES, { name: "chat", namespace: ns })).toEqual(before);
});

test("a Service that carries copied labels under another name is neither rewritten nor deleted", async () => {
  const ns = await namespace("copied");
  await bench.apply(inferenceService(ns, "chat"));
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  // As `kubectl expose` does.
  const { labels } = must(await bench.client.get(SERVICES, { name: "chat", namespace: ns })).metadata;
  await createForeignService(ns, "a-chat", labels);
  const before = await bench.client.get(SERVICES, { name: "a-chat", namespace: ns });
  await bench.objects.scale(ns, "isvc/chat", 2);
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.ready).toBe("2/2"));
  expect(await bench.client.get(SERVICES, { name: "a-chat", namespace: ns })).toEqual(before);
  await bench.objects.remove(ns, "isvc/chat");
  expect(await bench.client.get(SERVICES, { name: "a-chat", namespace: ns })).toEqual(before);
  expect(await bench.client.get(SERVICES, { name: "chat", namespace: ns })).toMatchObject({ ok: false });
});

test("the deletion of the Service that has the name is handled each time", async () => {
  const ns = await namespaceWithForeignService("freed");
  await bench.apply(inferenceService(ns, "chat"));
  for (let round = 0; round < 2; round += 1) {
    await agent.renew();
    await untilTaken(ns);
    await bench.objects.remove(ns, "service/chat");
    await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
    await takeAway(ns);
  }
});

test("a change of the Service that has the name, without its deletion, does not stop the watch", async () => {
  const ns = await namespaceWithForeignService("kept");
  await bench.apply(inferenceService(ns, "chat"));
  await untilTaken(ns);
  await bench.objects.patch(ns, "service/chat", { metadata: { annotations: { look: "again" } } });
  await untilTaken(ns);
  await bench.objects.remove(ns, "service/chat");
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
});

test("does not retry the create while the name is taken", async () => {
  const ns = await namespaceWithForeignService("quiet");
  await bench.apply(inferenceService(ns, "chat"));
  await untilTaken(ns);
  const before = await refusedCreates();
  expect(before).toBeGreaterThan(0);
  // Whatever was to happen within half a minute happens now, and before the pass over another service.
  await agent.renew();
  for (let step = 0; step < 5; step += 1) {
    clock.advance(6_000);
    await agent.renew();
  }
  await bench.apply(inferenceService(ns, "other"));
  await bench.serviceUntil(ns, "other", ({ status }) => expect(status?.phase).toBe("Ready"));
  // A pass that the service's own status brought may have come after the first count.
  expect((await refusedCreates()) - before).toBeLessThanOrEqual(1);
});

test("a model name stays with the service that claimed it first, until it is free, and never goes to another namespace", async () => {
  const [older, newer] = ["names-a", "names-b"] as const;
  for (const ns of [older, newer]) await namespace(ns);
  const endpoint = { modelNames: [{ name: "gpt-4o" }] };
  const untilNames = (ns: string, expected: object | undefined) =>
    bench.serviceUntil(ns, "chat", ({ status }) => {
      const found = getCondition(status?.conditions, "ModelNamesAccepted");
      if (expected === undefined) expect(found).toBeUndefined();
      else expect(found).toMatchObject(expected);
    });
  await bench.apply(inferenceService(older, "chat", { endpoint }));
  await untilNames(older, { status: "True", reason: "NamesAccepted" });
  await bench.apply(inferenceService(newer, "chat", { endpoint }));
  const message = expect.stringMatching(
    /gpt-4o of names-b\/chat belongs to names-a\/chat, which has claimed it for longer/,
  );
  await untilNames(newer, { status: "False", reason: "ModelNameTaken", message });
  await bench.apply(inferenceService(older, "chat"));
  await untilNames(newer, { status: "True", message: expect.stringContaining("gpt-4o") });
  await untilNames(older, undefined);
  await bench.apply(inferenceService(older, "chat", { endpoint }));
  const back = expect.stringMatching(/gpt-4o of names-a\/chat belongs to names-b\/chat, which has claimed/);
  await untilNames(older, { status: "False", reason: "ModelNameTaken", message: back });
  const slashed = { modelNames: [{ name: "names-b/victim" }, { name: "names-none/tiny" }] };
  await bench.apply(inferenceService(older, "chat", { endpoint: slashed }));
  const reserved = expect.stringMatching(
    /names-b\/victim of names-a\/chat is reserved .* as names-a\/chat, names-none\/tiny, chat\. To do/,
  );
  await untilNames(older, { status: "False", reason: "ModelNameReserved", message: reserved });
  await bench.serviceUntil(older, "chat", ({ status }) =>
    expect(status?.modelNames?.map(({ name }) => name)).toEqual(["chat", "names-none/tiny"]),
  );
  await bench.objects.remove(older, "isvc/chat");
  await untilNames(newer, { message: "gateways offer names-b/chat as names-b/chat, gpt-4o, chat" });
});

/** Services that the API server refused to create because the name is taken. */
async function refusedCreates(): Promise<number> {
  const metrics = await bench.objects.raw("/metrics");
  return metrics
    .split("\n")
    .filter(
      (line) =>
        line.startsWith("apiserver_request_total{") &&
        /code="409".*resource="services".*verb="POST"/.test(line),
    )
    .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

/** A user replaces our Service with a foreign one. */
async function takeAway(ns: string): Promise<void> {
  // Its status may be Ready before the Service is there.
  await bench.objects.until(ns, "service/chat", (service) => expect(service).toBeDefined());
  await bench.stopController();
  try {
    await bench.objects.remove(ns, "service/chat");
    await createForeignService(ns);
  } finally {
    await bench.restartController();
  }
}
