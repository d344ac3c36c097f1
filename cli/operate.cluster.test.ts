/** The verbs and the real controller understand each other: revisions, rollouts and drains. */
import { expect, test } from "vitest";
import { HOSTS } from "../src/api/kinds.ts";
import { must } from "../test/bed/must.ts";
import { runVerb, startProgram } from "../test/cli/program.ts";
import { inferenceService, startBench } from "../test/controller/bench.ts";

test("a change is followed, listed and undone", async () => {
  await using bench = await startBench();
  const { kubeconfig, objects } = bench.cluster;
  await bench.agent("mac-1");
  await bench.agent("mac-2");
  await objects.createNamespace("team");
  await bench.model("team", "tiny");
  const rollout = (...args: string[]) => runVerb(["rollout", ...args, "-n", "team"], { kubeconfig });
  const change = (spec: object) => bench.apply(inferenceService("team", "chat", { replicas: 2, ...spec }));
  const followed = async () =>
    expect(await rollout("status", "chat", "--timeout", "120s")).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/is rolled out: 2 of 2 replicas/),
    });

  await change({ contextSize: 4096 });
  await followed();
  await change({ contextSize: 8192, parallelSlots: 2 });
  await followed();
  const history = await rollout("history", "chat");
  expect(history.stdout).toMatch(/^2 .* serving +contextSize 4096 -> 8192, parallelSlots unset -> 2$/m);

  expect(await rollout("undo", "chat")).toMatchObject({ code: 0, stderr: "" });
  await followed();
  const { spec, status } = await bench.service("team", "chat");
  expect(spec).toMatchObject({ contextSize: 4096, replicas: 2 });
  expect(spec.parallelSlots).toBeUndefined();
  const entries = JSON.parse((await rollout("history", "chat", "-o", "json")).stdout) as {
    revision: number;
    hash: string;
  }[];
  expect(entries.map(({ revision }) => revision)).toEqual([2, 3]);
  expect((await rollout("history", "chat")).stdout).toMatch(
    /\n1 earlier number is not listed: its revision is no longer kept \(revisionHistoryLimit: 10\), or was restored/,
  );
  expect(entries.at(-1)?.hash).toBe(status?.currentRevision);
  const described = await runVerb(["describe", "chat", "-n", "team"], { kubeconfig });
  expect(described.stdout).toMatch(/Replicas: +2 desired, 2 ready, 2 of the newest revision, 2 total/);
});

test("a drain waits for room, then leaves the host empty, and is taken back", async () => {
  await using bench = await startBench();
  const { kubeconfig, objects } = bench.cluster;
  await bench.agent("mac-1");
  await objects.createNamespace("team");
  await bench.model("team", "tiny");
  await bench.apply(inferenceService("team", "chat"));
  await bench.serviceUntil("team", "chat", ({ status }) => expect(status?.readyReplicas).toBe(1));
  const run = (...args: string[]) => runVerb(args, { kubeconfig });

  await using drain = startProgram(["drain", "mac-1", "--timeout", "60s"], { kubeconfig });
  await drain.until(/chat-0-\w+ +Ready; runs until another replica is Ready elsewhere/);
  await drain.until(/stays: /);
  await bench.agent("mac-2");
  expect(await drain.ended).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/chat-0-\w+ +has left[\s\S]*host mac-1 is drained/),
  });
  const hosts = (await bench.replicas("team")).map((one) => one.spec.template.hostName);
  expect(hosts).toEqual(["mac-2"]);
  expect((await run("host", "list")).stdout).toMatch(/^mac-1 +Ready, drained +0\/0 /m);

  expect(await run("uncordon", "mac-1")).toMatchObject({ code: 0 });
  const drained = async () =>
    must(await bench.client.get(HOSTS, { name: "mac-1" })).status?.conditions?.some(
      ({ type }) => type === "Drained",
    );
  await expect.poll(drained, { timeout: 60_000 }).toBe(false);
  expect((await run("host", "list")).stdout).toMatch(/^mac-1 +Ready +0\/0 /m);
});
