import { expect, test } from "vitest";
import { getCondition } from "../src/api/conditions.ts";
import type { EndpointSlice, Service } from "../src/kube/objects.ts";
import { inferenceService } from "../test/controller/bench.ts";
import { oneOnce } from "../test/controller/once.ts";

const bench = oneOnce();
const status = async (ns: string, name = "chat") => (await bench().service(ns, name)).status;

/** A service on mac-1, in a namespace of its own. */
async function serve(ns: string, spec: object = {}): Promise<void> {
  await bench().agents({ "mac-1": {} });
  await bench().namespace(ns);
  await bench().apply(inferenceService(ns, "chat", spec));
  expect(await status(ns)).toMatchObject({ phase: "Ready" });
}

const slicesOn = async (ns: string, host: string): Promise<readonly EndpointSlice[]> =>
  (await bench().objects.get(ns, "endpointslices")).items.filter(
    ({ metadata }: EndpointSlice) => metadata.labels?.["metalbridge.dev/host"] === host,
  );

test("an applied service gets a Service, a replica, a slice, and becomes Ready", async () => {
  await serve("first");
  const service = await bench().service("first", "chat");
  expect(service.status).toMatchObject({
    replicas: 1,
    readyReplicas: 1,
    desiredReplicas: 1,
    ready: "1/1",
    runtime: "llamacpp",
    endpoint: "http://chat.first.svc:8080/v1/chat/completions",
    selector: "metalbridge.dev/service=chat",
    effectivePriority: 10_000,
    observedGeneration: 1,
  });
  expect(service.metadata.finalizers).toEqual(["metalbridge.dev/service"]);
  const conditions = (service.status?.conditions ?? []).map(({ type, status }) => [type, status]);
  expect(Object.fromEntries(conditions)).toEqual({
    Available: "True",
    Degraded: "False",
    Encrypted: "False",
    KeyRequired: "False",
    Placed: "True",
    Progressing: "False",
    Ready: "True",
    SpecHonored: "True",
    SpeedKnown: "False",
    Warnings: "False",
  });
  const kube: Service = await bench().objects.get("first", "service/chat");
  expect(kube.spec?.ports).toMatchObject([{ name: "http", port: 8080 }]);
  expect(await slicesOn("first", "mac-1")).toMatchObject([
    { metadata: { annotations: { "metalbridge.dev/addresses": "192.168.7.20" } }, addressType: "IPv4" },
  ]);
});

test("a service waits for the Models of its draft and its LoRA adapters, and passes them to its replicas", async () => {
  await bench().agents({ "mac-1": {} });
  const ns = await bench().namespace("further", { gib: 1 });
  await bench().model(ns, "small", { gib: 1 });
  const spec = {
    speculativeDecoding: { type: "draft", draftModelRef: "small" },
    loraAdapters: [{ modelRef: "style", scale: 0.5 }],
  };
  await bench().apply(inferenceService(ns, "chat", spec));
  const waiting = await status(ns);
  expect(waiting).toMatchObject({ phase: "Pending", reason: "ModelNotFound" });
  expect(waiting?.message).toContain("spec.loraAdapters[0].modelRef");
  await bench().model(ns, "style", { gib: 1 });
  await bench().settle();
  expect(await status(ns)).toMatchObject({ phase: "Ready" });
  const [replica] = await bench().replicas(ns);
  const source = expect.stringMatching(/./);
  expect(replica?.spec.template).toMatchObject({
    draft: { source },
    loraAdapters: [{ model: { source }, scale: 0.5 }],
  });
  expect(replica?.spec.memory.draftBytes).toBeGreaterThan(0);
  expect(replica?.spec.memory.loraBytes).toBeGreaterThan(0);
});

test("a service that is scaled adds replicas and takes the highest ordinals away; one that is suspended has none", async () => {
  await serve("scaled");
  await bench().objects.scale("scaled", "isvc/chat", 3);
  await bench().settle();
  expect(await status("scaled")).toMatchObject({ ready: "3/3" });
  await bench().objects.scale("scaled", "isvc/chat", 1);
  await bench().settle();
  expect(await status("scaled")).toMatchObject({ ready: "1/1", replicas: 1 });
  expect((await bench().replicas("scaled")).map(({ metadata }) => metadata.name)).toEqual([
    expect.stringMatching(/^chat-0-/),
  ]);
  await bench().patch("scaled", "isvc/chat", { spec: { suspend: true } });
  expect(await status("scaled")).toMatchObject({ phase: "Suspended", replicas: 0, desiredReplicas: 0 });
  expect(await bench().replicas("scaled")).toEqual([]);
});

test("live performance of ready replicas adds up in the status of their service", async () => {
  await serve("busy", { replicas: 2 });
  const report = async (index: number, tokensPerSecond: number) => {
    const { name } = (await bench().replicas("busy"))[index]?.metadata ?? {};
    const performance = { tokensPerSecond, timeToFirstTokenSeconds: 0.5, requestsInFlight: 1 };
    await bench().objects.patch("busy", `irep/${name}`, { status: { performance } }, "status");
    await bench().settle();
  };
  await report(0, 10);
  const first = { tokensPerSecond: 10, timeToFirstTokenSeconds: 0.5, requestsInFlight: 1 };
  expect((await status("busy"))?.performance).toEqual(first);
  // The first change is written at once, and the second one 30 seconds later.
  await report(1, 20);
  expect((await status("busy"))?.performance).toEqual(first);
  await bench().advance(30_000);
  expect((await status("busy"))?.performance).toEqual({
    tokensPerSecond: 30,
    timeToFirstTokenSeconds: 0.5,
    requestsInFlight: 2,
  });
});

test("two services of one name in two namespaces, and the longest name, do not meet", async () => {
  const name = `a${"b".repeat(49)}`;
  await bench().agents({ "mac-1": {} });
  for (const ns of ["twin-a", "twin-b"]) {
    await bench().namespace(ns);
    await bench().apply(inferenceService(ns, name, { replicas: 2 }));
  }
  for (const ns of ["twin-a", "twin-b"]) {
    expect(await status(ns, name)).toMatchObject({ ready: "2/2" });
    const replicas = await bench().replicas(ns);
    expect(replicas).toHaveLength(2);
    for (const { metadata } of replicas) expect(metadata.name.length).toBeLessThanOrEqual(63);
  }
  await bench().remove("twin-a", `isvc/${name}`);
  expect(await bench().replicas("twin-b")).toHaveLength(2);
  expect(await bench().replicas("twin-a")).toHaveLength(0);
});

test("a Model that is missing is waited for; one that is deleted in use stops nothing", async () => {
  await bench().agents({ "mac-1": {} });
  const ns = "missing";
  await bench().objects.createNamespace(ns);
  await bench().apply(inferenceService(ns, "chat"));
  expect(await status(ns)).toMatchObject({ phase: "Pending", reason: "ModelNotFound" });
  await bench().model(ns, "tiny");
  await bench().settle();
  expect(await status(ns)).toMatchObject({ phase: "Ready" });
  const before = await bench().replicas(ns);
  await bench().remove(ns, "model/tiny");
  expect(getCondition((await status(ns))?.conditions, "Degraded")?.reason).toBe("ModelNotFound");
  expect((await bench().replicas(ns)).map(({ metadata }) => metadata.uid)).toEqual([before[0]?.metadata.uid]);
});

test("what cannot be placed says which host lacks what, and takes its turn when there is room", async () => {
  await bench().agents({ "mac-1": {} });
  const ns = await bench().namespace("waiting", { gib: 200 });
  await bench().apply(inferenceService(ns, "chat"));
  const waiting = await status(ns);
  expect(waiting).toMatchObject({
    phase: "WaitingForCapacity",
    reason: "NoHostWithMemory",
    queuePosition: 1,
  });
  expect(waiting?.placement?.misses?.[0]).toMatchObject({
    host: "mac-1",
    reason: "HostMemoryShort",
    message: expect.stringMatching(/^needs 20\d.* GiB, .* GiB of 64 GiB left$/),
  });
  await bench().agents({ "mac-large": { budgetGib: 400 } });
  expect(await status(ns)).toMatchObject({ phase: "Ready" });
});

test("fields without effect are named", async () => {
  await serve("named", { nodeSelector: { a: "b" } });
  expect(getCondition((await status("named"))?.conditions, "SpecHonored")).toMatchObject({
    status: "False",
    message: expect.stringContaining("spec.nodeSelector"),
  });
});

test("the Service follows the spec, keeps its node port, and is recreated after a user deletes it", async () => {
  const ns = "exposed";
  const change = (endpoint: object) => bench().apply(inferenceService(ns, "chat", { endpoint }));
  const ports = async () => {
    const { spec }: Service = await bench().objects.get(ns, "service/chat");
    return { type: spec?.type, ...spec?.ports?.[0] };
  };
  await serve(ns, { endpoint: { type: "NodePort" } });
  const { nodePort } = await ports();
  expect(nodePort).toBeGreaterThan(30_000 - 1);

  await change({ type: "NodePort", port: 9090 });
  expect(await ports()).toMatchObject({ port: 9090, nodePort });
  expect((await status(ns))?.endpoint).toContain(":9090/");
  await change({ type: "ClusterIP", port: 9090 });
  expect(await ports()).toMatchObject({ type: "ClusterIP", port: 9090 });
  expect((await ports()).nodePort).toBeUndefined();

  await bench().objects.startRemoval(ns, "service/chat");
  await bench().settle();
  expect(await ports()).toMatchObject({ port: 9090 });
});

test("a replica or slice that a user deletes is recreated, and slices follow the host's addresses", async () => {
  const ns = "mended";
  await serve(ns);
  const remove = async (what: string) => {
    await bench().objects.startRemoval(ns, what);
    await bench().settle();
  };
  const [replica] = await bench().replicas(ns);
  await remove(`irep/${replica?.metadata.name}`);
  const replicas = await bench().replicas(ns);
  expect(replicas).toMatchObject([{ status: { phase: "Ready" } }]);
  expect(replicas[0]?.metadata.uid).not.toBe(replica?.metadata.uid);

  const [slice] = await slicesOn(ns, "mac-1");
  await remove(`endpointslice/${slice?.metadata.name}`);
  const slices = await slicesOn(ns, "mac-1");
  expect(slices).toMatchObject([{ endpoints: [{ conditions: { ready: true } }] }]);
  expect(slices[0]?.metadata.uid).not.toBe(slice?.metadata.uid);

  await bench().patch("", "mbhost/mac-1", { spec: { addresses: ["192.168.7.20", "192.168.7.0/24"] } });
  expect((await slicesOn(ns, "mac-1"))[0]?.metadata.annotations).toMatchObject({
    "metalbridge.dev/addresses": "192.168.7.20,192.168.7.0/24",
  });
});

test("a second start of the controller writes nothing", async () => {
  const ns = "calm";
  await serve(ns, { replicas: 2, endpoint: { type: "NodePort" } });
  const versions = async () => {
    const kinds = ["isvc", "irep", "services", "endpointslices", "controllerrevisions", "mbhost", "models"];
    const lists = await Promise.all(kinds.map((kind) => bench().objects.get(ns, kind)));
    return lists.map(({ items }) =>
      items.map(({ metadata: { name, resourceVersion } }: EndpointSlice) => `${name} ${resourceVersion}`),
    );
  };
  const before = await versions();
  await bench().restart();
  expect(await versions()).toEqual(before);
});
