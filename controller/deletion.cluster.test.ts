import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { INFERENCE_SERVICES } from "../src/api/kinds.ts";
import type { Objects } from "../test/bed/objects.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";
import { oneOnce } from "../test/controller/once.ts";

const OURS = { labelSelector: "metalbridge.dev/service-uid" };
const OWNED = ["services", "endpointslices", "controllerrevisions"];

describe("step by step", () => {
  const bench = oneOnce();

  const expectNothingLeft = async (ns: string) => {
    for (const kind of ["isvc", "irep", ...OWNED])
      expect((await bench().objects.get(ns, kind)).items).toEqual([]);
  };

  test("the Service stays until the last engine has stopped", async () => {
    await bench().agents({ "mac-1": {} });
    const ns = await bench().namespace("ordered");
    await bench().apply(inferenceService(ns, "chat"));
    // Its agent drains for as long as it likes.
    bench().agent("mac-1").fallSilent();
    await bench().objects.startRemoval(ns, "isvc/chat");
    await bench().settle();
    const [replica] = await bench().replicas(ns);
    expect(replica?.metadata.deletionTimestamp).toBeDefined();
    expect((await bench().objects.get(ns, "services")).items).toHaveLength(1);
    expect((await bench().objects.get(ns, "endpointslices")).items).toHaveLength(1);
    await bench().agents({ "mac-1": {} });
    await expectNothingLeft(ns);
  });

  test("replicas of a deleted Host are rescheduled", async () => {
    await bench().agents({ "mac-1": { budgetGib: 512 }, "mac-2": {} });
    const ns = await bench().namespace("moved");
    await bench().apply(inferenceService(ns, "chat"));
    const hosts = async () => (await bench().replicas(ns)).map(({ spec }) => spec.template.hostName);
    expect(await hosts()).toEqual(["mac-1"]);
    await bench().remove("", "mbhost/mac-1");
    expect(await hosts()).toEqual(["mac-2"]);
    expect((await bench().service(ns, "chat")).status?.phase).toBe("Ready");
  });

  test("objects of a service that was removed while no controller ran are cleaned up at its start", async () => {
    await bench().agents({ "mac-1": {} });
    const ns = await bench().namespace("swept");
    await bench().apply(inferenceService(ns, "chat", { replicas: 2 }));
    await bench().restart(async () => {
      // A user removes the finalizer.
      await bench().objects.patch(ns, "isvc/chat", { metadata: { finalizers: null } });
      await bench().objects.startRemoval(ns, "isvc/chat");
    });
    await expectNothingLeft(ns);
  });
});

describe("with the garbage collector", () => {
  let bench: Bench;
  let objects: Objects;
  beforeAll(async () => {
    bench = await startBench();
    objects = bench.objects;
    await bench.agent("mac-1");
  });
  afterAll(() => bench?.[Symbol.asyncDispose]());

  const serveIn = async (ns: string) => {
    await objects.createNamespace(ns);
    await bench.model(ns, "tiny");
    await bench.apply(inferenceService(ns, "chat", { replicas: 2 }));
    await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  };

  test.each(["Background", "Foreground", "Orphan"] as const)(
    "deletion with %s propagation leaves nothing",
    async (propagation) => {
      const namespace = `gone-${propagation.toLowerCase()}`;
      await serveIn(namespace);
      await bench.client.remove(INFERENCE_SERVICES, { namespace, name: "chat" }, { propagation });
      const untilNone = (kind: string, options = {}) =>
        objects.until(namespace, kind, (items: unknown[]) => expect(items).toEqual([]), options);
      for (const kind of ["isvc", "irep"]) await untilNone(kind);
      for (const kind of OWNED) await untilNone(kind, OURS);
    },
  );

  test("a deleted namespace is removed with services in any state", async () => {
    const ns = "gone-whole";
    await serveIn(ns);
    await bench.apply(inferenceService(ns, "waits", { modelRef: "absent" }));
    await objects.remove("", `namespace/${ns}`);
  });
});
