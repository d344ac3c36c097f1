import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { CONTROLLER_REVISIONS, ENDPOINT_SLICES, SERVICES } from "../src/kube/kinds.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";

const WAIT = { timeout: 60_000, interval: 50 };
let bench: Bench;
beforeAll(async () => {
  bench = await startBench();
  await bench.agent("mac-1");
});
afterAll(() => bench?.[Symbol.asyncDispose]());

async function namespace(name: string): Promise<string> {
  await bench.cluster.kubectl(["create", "namespace", name]);
  return name;
}

test("an applied service gets a Service, a replica, a slice, and becomes Ready", async () => {
  const ns = await namespace("first");
  await bench.model(ns, "tiny");
  await bench.apply(inferenceService(ns, "chat"));
  const service = await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));

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
  const conditions = Object.fromEntries(
    (service.status?.conditions ?? []).map(({ type, status }) => [type, status]),
  );
  expect(conditions).toEqual({
    Available: "True",
    Degraded: "False",
    KeyRequired: "False",
    Placed: "True",
    Progressing: "False",
    Ready: "True",
    SpecHonored: "True",
    SpeedKnown: "False",
    Warnings: "False",
  });
  const kube = await bench.client.get(SERVICES, { name: "chat", namespace: ns });
  expect(kube).toMatchObject({ ok: true, value: { spec: { ports: [{ name: "http", port: 8080 }] } } });
  const slices = await bench.client.list(ENDPOINT_SLICES, {
    namespace: ns,
    labelSelector: "metalbridge.dev/host=mac-1",
  });
  expect(slices).toMatchObject({
    value: {
      items: [
        { metadata: { annotations: { "metalbridge.dev/addresses": "192.168.7.20" } }, addressType: "IPv4" },
      ],
    },
  });
});

test("a service waits for the Models of its draft and its LoRA adapters, and passes them to its replicas", async () => {
  const ns = await namespace("further");
  await bench.model(ns, "tiny", { gib: 1 });
  await bench.model(ns, "small", { gib: 1 });
  const spec = {
    speculativeDecoding: { type: "draft", draftModelRef: "small" },
    loraAdapters: [{ modelRef: "style", scale: 0.5 }],
  };
  await bench.apply(inferenceService(ns, "chat", spec));
  await bench.serviceUntil(ns, "chat", ({ status }) => {
    expect(status).toMatchObject({ phase: "Pending", reason: "ModelNotFound" });
    expect(status?.message).toContain("spec.loraAdapters[0].modelRef");
  });
  await bench.model(ns, "style", { gib: 1 });
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const [replica] = await bench.replicas(ns);
  const source = expect.stringMatching(/./);
  expect(replica?.spec.template).toMatchObject({
    draft: { source },
    loraAdapters: [{ model: { source }, scale: 0.5 }],
  });
  expect(replica?.spec.memory.draftBytes).toBeGreaterThan(0);
  expect(replica?.spec.memory.loraBytes).toBeGreaterThan(0);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("kubectl scale adds replicas and takes the highest ordinals away", async () => {
  const ns = await namespace("scaled");
  await bench.model(ns, "tiny");
  await bench.apply(inferenceService(ns, "chat"));
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.ready).toBe("1/1"));
  await bench.cluster.kubectl(["scale", "isvc", "chat", "-n", ns, "--replicas=3"]);
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.ready).toBe("3/3"));
  await bench.cluster.kubectl(["scale", "isvc", "chat", "-n", ns, "--replicas=1"]);
  await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status).toMatchObject({ ready: "1/1", replicas: 1 }),
  );
  await vi.waitFor(async () => {
    const names = (await bench.replicas(ns)).map(({ metadata }) => metadata.name);
    expect(names).toEqual([expect.stringMatching(/^chat-0-/)]);
  }, WAIT);
  await bench.cluster.kubectl([
    "patch",
    "isvc",
    "chat",
    "-n",
    ns,
    "--type=merge",
    "-p",
    '{"spec":{"suspend":true}}',
  ]);
  await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status).toMatchObject({ phase: "Suspended", replicas: 0, desiredReplicas: 0 }),
  );
});

test("live performance of ready replicas adds up in the status of their service", async () => {
  const ns = await namespace("busy");
  await bench.model(ns, "tiny");
  await bench.apply(inferenceService(ns, "chat", { replicas: 2 }));
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.ready).toBe("2/2"));
  const replicas = await bench.replicas(ns);
  for (const [index, { metadata }] of replicas.entries()) {
    const performance = {
      tokensPerSecond: 10 * (index + 1),
      timeToFirstTokenSeconds: 0.5,
      requestsInFlight: 1,
    };
    const patch = JSON.stringify({ status: { performance } });
    const what = ["patch", "irep", metadata.name, "-n", ns, "--subresource=status", "--type=merge"];
    await bench.cluster.kubectl([...what, "-p", patch]);
  }
  // The first change is written at once, and the second one 30 seconds later.
  await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status?.performance).toEqual({
      tokensPerSecond: 30,
      timeToFirstTokenSeconds: 0.5,
      requestsInFlight: 2,
    }),
  );
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("a changed template rolls to a new revision; mutable fields restart nothing", async () => {
  const ns = await namespace("rolled");
  await bench.model(ns, "tiny");
  await bench.apply(inferenceService(ns, "chat"));
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const [first] = await bench.replicas(ns);

  await bench.apply(inferenceService(ns, "chat", { priority: "high", rollout: { drainSeconds: 7 } }));
  await vi.waitFor(async () => {
    const [now] = await bench.replicas(ns);
    expect(now?.spec).toMatchObject({ priority: "high", drainSeconds: 7 });
    expect(now?.metadata.uid).toBe(first?.metadata.uid);
  }, WAIT);

  await bench.apply(inferenceService(ns, "chat", { priority: "high", contextSize: 8192 }));
  await vi.waitFor(async () => {
    const [now, ...others] = await bench.replicas(ns);
    expect(others).toEqual([]);
    expect(now?.spec.template.engine.contextSize).toBe(8192);
  }, WAIT);
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const revisions = await bench.client.list(CONTROLLER_REVISIONS, { namespace: ns });
  expect(revisions).toMatchObject({ value: { items: { length: 2 } } });
});

test("two services of one name in two namespaces, and the longest name, do not meet", async () => {
  const name = `a${"b".repeat(49)}`;
  for (const ns of ["twin-a", "twin-b"]) {
    await namespace(ns);
    await bench.model(ns, "tiny");
    await bench.apply(inferenceService(ns, name, { replicas: 2 }));
  }
  for (const ns of ["twin-a", "twin-b"]) {
    await bench.serviceUntil(ns, name, ({ status }) => expect(status?.ready).toBe("2/2"));
    const replicas = await bench.replicas(ns);
    expect(replicas).toHaveLength(2);
    for (const { metadata } of replicas) expect(metadata.name.length).toBeLessThanOrEqual(63);
  }
  await bench.cluster.kubectl(["delete", "isvc", name, "-n", "twin-a"]);
  expect(await bench.replicas("twin-b")).toHaveLength(2);
  expect(await bench.replicas("twin-a")).toHaveLength(0);
});

test("a Model that is missing is waited for; one that is deleted in use stops nothing", async () => {
  const ns = await namespace("missing");
  await bench.apply(inferenceService(ns, "chat"));
  await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status).toMatchObject({ phase: "Pending", reason: "ModelNotFound" }),
  );
  await bench.model(ns, "tiny");
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const [before] = await bench.replicas(ns);
  await bench.cluster.kubectl(["delete", "model", "tiny", "-n", ns]);
  await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status?.conditions?.find(({ type }) => type === "Degraded")).toMatchObject({
      reason: "ModelNotFound",
    }),
  );
  expect((await bench.replicas(ns)).map(({ metadata }) => metadata.uid)).toEqual([before?.metadata.uid]);
});

test("what cannot be placed says which host lacks what, and takes its turn when there is room", async () => {
  const ns = await namespace("waiting");
  await bench.model(ns, "tiny");
  await bench.model(ns, "huge", { gib: 200 });
  await bench.apply(inferenceService(ns, "large", { modelRef: "huge" }));
  const service = await bench.serviceUntil(ns, "large", ({ status }) =>
    expect(status).toMatchObject({
      phase: "WaitingForCapacity",
      reason: "NoHostWithMemory",
      queuePosition: 1,
    }),
  );
  expect(service.status?.placement?.misses?.[0]).toMatchObject({
    host: "mac-1",
    reason: "HostMemoryShort",
    message: expect.stringMatching(/^needs 20\d.* GiB, .* GiB of 64 GiB left$/),
  });
  await using _ = await bench.agent("mac-large", { budgetGib: 400, address: "192.168.7.21" });
  await bench.serviceUntil(ns, "large", ({ status }) => expect(status?.phase).toBe("Ready"));
  await bench.cluster.kubectl(["delete", "isvc", "large", "-n", ns]);
  await bench.cluster.kubectl(["delete", "host", "mac-large"]);
});

test("fields without effect are named", async () => {
  const ns = await namespace("named");
  await bench.model(ns, "tiny");
  await bench.apply(inferenceService(ns, "chat", { nodeSelector: { a: "b" } }));
  const service = await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  expect(service.status?.conditions?.find(({ type }) => type === "SpecHonored")).toMatchObject({
    status: "False",
    message: expect.stringContaining("spec.nodeSelector"),
  });
});

test("the Service follows the spec, keeps its node port, and is recreated after a user deletes it", async () => {
  const ns = await namespace("exposed");
  const ports = async () => {
    const result = await bench.client.get(SERVICES, { name: "chat", namespace: ns });
    return result.ok ? { type: result.value.spec?.type, ...result.value.spec?.ports?.[0] } : undefined;
  };
  await bench.model(ns, "tiny");
  await bench.apply(inferenceService(ns, "chat", { endpoint: { type: "NodePort" } }));
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const nodePort = (await ports())?.nodePort;
  expect(nodePort).toBeGreaterThan(30_000 - 1);

  await bench.apply(inferenceService(ns, "chat", { endpoint: { type: "NodePort", port: 9090 } }));
  await vi.waitFor(async () => expect(await ports()).toMatchObject({ port: 9090, nodePort }), WAIT);
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.endpoint).toContain(":9090/"));
  await bench.apply(inferenceService(ns, "chat", { endpoint: { type: "ClusterIP", port: 9090 } }));
  await vi.waitFor(async () => expect(await ports()).toMatchObject({ type: "ClusterIP", port: 9090 }), WAIT);
  expect((await ports())?.nodePort).toBeUndefined();

  await bench.cluster.kubectl(["delete", "service", "chat", "-n", ns]);
  await vi.waitFor(async () => expect(await ports()).toMatchObject({ port: 9090 }), WAIT);
});

test("a replica or slice that a user deletes is recreated, and slices follow the host's addresses", async () => {
  const ns = await namespace("mended");
  await bench.model(ns, "tiny");
  await bench.apply(inferenceService(ns, "chat"));
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const slices = async () => {
    const options = { namespace: ns, labelSelector: "metalbridge.dev/host=mac-1" };
    const result = await bench.client.list(ENDPOINT_SLICES, options);
    return result.ok ? result.value.items : [];
  };
  const [replica] = await bench.replicas(ns);
  await bench.cluster.kubectl(["delete", "irep", replica?.metadata.name ?? "", "-n", ns]);
  await vi.waitFor(async () => {
    const [now, ...others] = await bench.replicas(ns);
    expect(others).toEqual([]);
    expect(now?.metadata.uid).not.toBe(replica?.metadata.uid);
    expect(now?.status?.phase).toBe("Ready");
  }, WAIT);
  // The slice of the deleted replica may still be on its way out.
  const slice = await vi.waitFor(async () => {
    const [only, ...others] = await slices();
    expect(others).toEqual([]);
    expect(only?.endpoints?.[0]?.conditions?.ready).toBe(true);
    return only;
  }, WAIT);
  await bench.cluster.kubectl(["delete", "endpointslice", slice?.metadata.name ?? "", "-n", ns]);
  await vi.waitFor(async () => {
    const [now, ...others] = await slices();
    expect(others).toEqual([]);
    expect(now?.metadata.uid).not.toBe(slice?.metadata.uid);
    expect(now?.endpoints?.[0]?.conditions?.ready).toBe(true);
  }, WAIT);
  const patch = '{"spec":{"addresses":["192.168.7.20","192.168.7.0/24"]}}';
  await bench.cluster.kubectl(["patch", "host", "mac-1", "--type=merge", "-p", patch]);
  await vi.waitFor(async () => {
    const [now] = await slices();
    expect(now?.metadata.annotations).toMatchObject({
      "metalbridge.dev/addresses": "192.168.7.20,192.168.7.0/24",
    });
  }, WAIT);
});

test("a second start of the controller writes nothing", async () => {
  const ns = await namespace("calm");
  await bench.model(ns, "tiny");
  await bench.apply(inferenceService(ns, "chat", { replicas: 2, endpoint: { type: "NodePort" } }));
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const versions = () =>
    bench.cluster.kubectl([
      "get",
      "isvc,irep,services,endpointslices,controllerrevisions,hosts",
      "-A",
      "-l=app.kubernetes.io/managed-by=metalbridge",
      "-o",
      "jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{'\\n'}{end}",
    ]);
  const services = () => bench.service(ns, "chat");
  const before = { owned: await versions(), service: (await services()).metadata.resourceVersion };
  await bench.restartController();
  // The new one works through every key; a further service is served after all of them.
  await bench.apply(inferenceService(ns, "later"));
  await bench.serviceUntil(ns, "later", ({ status }) => expect(status?.phase).toBe("Ready"));
  await bench.cluster.kubectl(["delete", "isvc", "later", "-n", ns]);
  expect({ owned: await versions(), service: (await services()).metadata.resourceVersion }).toEqual(before);
});
