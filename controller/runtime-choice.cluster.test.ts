/** Services without spec.runtime on farms whose hosts have different engines. */
import { expect, test } from "vitest";
import { getCondition } from "../src/api/conditions.ts";
import { inferenceService } from "../test/controller/bench.ts";
import { oneOnce } from "../test/controller/once.ts";

const bench = oneOnce();
const status = async (ns: string, name = "chat") => (await bench().service(ns, name)).status;
const homes = async (ns: string) =>
  (await bench().replicas(ns))
    .map(({ spec: { template } }) => `${template.runtime} on ${template.hostName}`)
    .sort();

test("on a mixed farm all replicas run on the preferred runtime, on the hosts that have it", async () => {
  await bench().agents({ a: { runtimes: ["ollama"] }, b: { runtimes: ["llamacpp"] } });
  const ns = await bench().namespace("mixed");
  await bench().apply(
    inferenceService(ns, "chat", { replicas: 2 }),
    inferenceService(ns, "named", { runtime: "ollama" }),
  );
  for (const name of ["chat", "named"]) expect(await status(ns, name)).toMatchObject({ phase: "Ready" });
  expect(await homes(ns)).toEqual(["llamacpp on b", "llamacpp on b", "ollama on a"]);
});

test("a service that runs keeps its runtime when a host with a better one appears, until its next revision", async () => {
  await bench().agents({ a: { runtimes: ["ollama"] } });
  const ns = await bench().namespace("stable");
  await bench().apply(inferenceService(ns, "chat"));
  const before = await status(ns);
  expect(before).toMatchObject({ phase: "Ready", runtime: "ollama" });
  await bench().agents({ b: { runtimes: ["llamacpp"] } });
  await bench().patch(ns, "isvc/chat", { spec: { replicas: 2 } });
  const scaled = await status(ns);
  expect(scaled?.readyReplicas).toBe(2);
  expect(scaled?.currentRevision).toBe(before?.currentRevision);
  expect(await homes(ns)).toEqual(["ollama on a", "ollama on a"]);

  await bench().patch(ns, "isvc/chat", { spec: { replicas: 1, contextSize: 2048 } });
  expect(await status(ns)).toMatchObject({ phase: "Ready", runtime: "llamacpp", replicas: 1 });
  expect(await homes(ns)).toEqual(["llamacpp on b"]);
});

test("a runtime that no host has is a condition with the command that installs it, and a host that gets one is used", async () => {
  await bench().agents({ a: { runtimes: ["other"] } });
  const ns = await bench().namespace("nothing");
  await bench().model(ns, "mlx", { format: "mlx" });
  await bench().apply(inferenceService(ns, "chat"), inferenceService(ns, "on-mlx", { modelRef: "mlx" }));
  for (const name of ["chat", "on-mlx"]) {
    const waiting = await status(ns, name);
    expect(waiting).toMatchObject({ phase: "WaitingForCapacity", reason: "HostRuntimeMissing" });
    expect(getCondition(waiting?.conditions, "Placed")).toMatchObject({
      status: "False",
      reason: "HostRuntimeMissing",
      message: expect.stringMatching(/^no host has \S+ \(install: (brew|pip) .*\); a: \S+ is not installed/),
    });
  }
  const { kubectl } = bench().cluster;
  const shown = await kubectl(["get", "isvc", "-n", ns, "-o", "wide"]);
  expect(shown.match(/HostRuntimeMissing/g)).toHaveLength(2);
  expect(await kubectl(["describe", "isvc", "chat", "-n", ns])).toContain("brew install llama.cpp");

  await bench().agents({ b: { runtimes: ["generic", "mlx_lm.server"] }, c: { runtimes: ["ollama"] } });
  expect(await status(ns, "chat")).toMatchObject({ phase: "Ready", runtime: "ollama" });
  expect(await status(ns, "on-mlx")).toMatchObject({ phase: "Ready", runtime: "generic" });
  expect(await homes(ns)).toEqual(["generic on b", "ollama on c"]);
});
