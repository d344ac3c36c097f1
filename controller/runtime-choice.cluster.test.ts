/** Services without spec.runtime on farms whose hosts have different engines. */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";

let bench: Bench;
let addresses = 0;
beforeAll(async () => {
  bench = await startBench();
});
afterAll(() => bench?.[Symbol.asyncDispose]());

async function namespace(name: string): Promise<string> {
  await bench.cluster.kubectl(["create", "namespace", name]);
  return name;
}

/** Each test has a farm of its own, by a label. */
function hostOf(farm: string, host: string, runtimes: readonly string[]) {
  addresses += 1;
  const address = `192.168.7.${addresses}`;
  return bench.agent(`${farm}-${host}`, { labels: { farm }, address, runtimes });
}

function serviceOn(farm: string, name: string, spec: object = {}): object {
  return inferenceService(farm, name, {
    placement: { hostSelector: { matchLabels: { farm } } },
    ...spec,
  });
}

async function homes(ns: string): Promise<string[]> {
  const replicas = await bench.replicas(ns);
  return replicas.map(({ spec: { template } }) => `${template.runtime} on ${template.hostName}`).sort();
}

test("a GGUF runs in Ollama where no host has llamacpp", async () => {
  const ns = await namespace("only-ollama");
  await using _ = await hostOf(ns, "a", ["ollama"]);
  await bench.model(ns, "tiny");
  await bench.apply(serviceOn(ns, "chat"));
  const { status } = await bench.serviceUntil(ns, "chat", (one) => expect(one.status?.phase).toBe("Ready"));
  expect(status?.runtime).toBe("ollama");
  expect(await homes(ns)).toEqual(["ollama on only-ollama-a"]);
});

test("on a mixed farm all replicas run on the preferred runtime, on the hosts that have it", async () => {
  const ns = await namespace("mixed");
  await using _ = await hostOf(ns, "a", ["ollama"]);
  await using __ = await hostOf(ns, "b", ["llamacpp"]);
  await bench.model(ns, "tiny");
  await bench.apply(serviceOn(ns, "chat", { replicas: 2 }));
  await bench.apply(serviceOn(ns, "named", { runtime: "ollama" }));
  for (const name of ["chat", "named"])
    await bench.serviceUntil(ns, name, ({ status }) => expect(status?.phase).toBe("Ready"));
  expect(await homes(ns)).toEqual(["llamacpp on mixed-b", "llamacpp on mixed-b", "ollama on mixed-a"]);
});

test("a service that runs keeps its runtime when a host with a better one appears, until its next revision", async () => {
  const ns = await namespace("stable");
  await using _ = await hostOf(ns, "a", ["ollama"]);
  await bench.model(ns, "tiny");
  await bench.apply(serviceOn(ns, "chat"));
  const before = await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  await using __ = await hostOf(ns, "b", ["llamacpp"]);
  await bench.apply(serviceOn(ns, "chat", { replicas: 2 }));
  const scaled = await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.readyReplicas).toBe(2));
  expect(scaled.status?.currentRevision).toBe(before.status?.currentRevision);
  expect(await homes(ns)).toEqual(["ollama on stable-a", "ollama on stable-a"]);

  await bench.apply(serviceOn(ns, "chat", { contextSize: 2048 }));
  await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status).toMatchObject({ phase: "Ready", runtime: "llamacpp", replicas: 1 }),
  );
  // Those that are being deleted are not counted.
  await vi.waitFor(async () => expect(await homes(ns)).toEqual(["llamacpp on stable-b"]), {
    timeout: 60_000,
    interval: 50,
  });
});

test("a runtime that no host has is a condition with the command that installs it, and a host that gets one is used", async () => {
  const ns = await namespace("nothing");
  await using _ = await hostOf(ns, "a", ["other"]);
  await bench.model(ns, "tiny");
  await bench.model(ns, "mlx", { format: "mlx" });
  await bench.apply(serviceOn(ns, "chat"));
  await bench.apply(serviceOn(ns, "on-mlx", { modelRef: "mlx" }));
  const missing = /^no host has \S+ \(install: (brew|pip) .*\); nothing-a: \S+ is not installed/;
  for (const name of ["chat", "on-mlx"]) {
    const { status } = await bench.serviceUntil(ns, name, (one) =>
      expect(one.status).toMatchObject({ phase: "WaitingForCapacity", reason: "HostRuntimeMissing" }),
    );
    expect(status?.conditions).toContainEqual(
      expect.objectContaining({
        type: "Placed",
        status: "False",
        reason: "HostRuntimeMissing",
        message: expect.stringMatching(missing),
      }),
    );
  }
  const shown = await bench.cluster.kubectl(["get", "isvc", "-n", ns, "-o", "wide"]);
  expect(shown.match(/HostRuntimeMissing/g)).toHaveLength(2);
  expect(await bench.cluster.kubectl(["describe", "isvc", "chat", "-n", ns])).toContain(
    "brew install llama.cpp",
  );

  await using __ = await hostOf(ns, "b", ["generic", "mlx_lm.server"]);
  await using ___ = await hostOf(ns, "c", ["ollama"]);
  for (const [name, runtime] of [
    ["chat", "ollama"],
    ["on-mlx", "generic"],
  ] as const)
    await bench.serviceUntil(ns, name, ({ status }) =>
      expect(status).toMatchObject({ phase: "Ready", runtime }),
    );
  expect(await homes(ns)).toEqual(["generic on nothing-b", "ollama on nothing-c"]);
});
