/** `metalbridge drain` against the real API server; the controller's and the agent's words are written by the test. */
import { expect, test } from "vitest";
import { HOSTS, INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import { must } from "../test/bed/must.ts";
import { type Desk, openDesk } from "../test/cli/objects.ts";
import { runVerb, startProgram } from "../test/cli/program.ts";
import { startCluster } from "../test/cluster/cluster.ts";

async function tellDrained(
  desk: Desk,
  host: string,
  status: "True" | "False",
  reason: string,
  message: string,
) {
  const { generation } = must(await desk.client.get(HOSTS, { name: host })).metadata;
  const condition = { type: "Drained", status, reason, message, observedGeneration: generation };
  await desk.status(HOSTS, host, {
    conditions: [{ ...condition, lastTransitionTime: "2026-03-01T12:00:00Z" }],
  });
}

test("each replica is seen leaving, and the end is the controller's word", async () => {
  await using desk = await openDesk();
  const host = await desk.host();
  const other = await desk.host();
  await desk.replica("chat-0", host, { phase: "Ready" });
  await desk.replica("elsewhere-0", other, { phase: "Ready" });
  await using drain = startProgram(["drain", host, "--timeout", "60s"], desk);
  await drain.until(/chat-0 +Ready; runs until another replica is Ready elsewhere/);
  expect(must(await desk.client.get(HOSTS, { name: host })).spec).toMatchObject({
    drain: true,
    unschedulable: false,
  });
  await tellDrained(desk, host, "False", "DrainInProgress", "1 replica is left");
  await drain.until(/^1 replica is left$/m);
  await desk.status(INFERENCE_REPLICAS, "chat-0", { phase: "Draining", message: "1 request is in flight" });
  await drain.until(/chat-0 +Draining: 1 request is in flight/);
  must(await desk.client.remove(INFERENCE_REPLICAS, { name: "chat-0", namespace: desk.namespace }));
  await drain.until(/chat-0 +has left/);
  await tellDrained(desk, host, "True", "HostDrained", "nothing is left");
  const { code, stdout, stderr } = await drain.ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(new RegExp(`host ${host} is drained; .*metalbridge uncordon ${host}\n$`));
  expect(stdout).not.toContain("elsewhere-0");
});

test("a word about an earlier drain does not end this one", async () => {
  await using desk = await openDesk();
  const host = await desk.host();
  await tellDrained(desk, host, "True", "HostDrained", "nothing is left");
  const { code, stderr } = await runVerb(["drain", host, "--timeout", "5s"], desk);
  expect(code).toBe(1);
  expect(stderr).toMatch(/^DrainNotFinished: .*after 5s; the controller has not reported/);
});

test("after the timeout it says what is left and why, and the drain continues", async () => {
  await using desk = await openDesk();
  const host = await desk.host({ "spec.drain": true });
  await desk.replica("chat-0", host, { phase: "Ready" });
  await tellDrained(desk, host, "False", "DrainBlocked", "no other host has 12 GiB free");
  const { code, stdout, stderr } = await runVerb(["drain", host, "--timeout", "12s"], desk);
  expect(code).toBe(1);
  expect(stdout).toContain("is already being drained");
  expect(stderr).toMatch(
    /^DrainNotFinished: .*still on the host: \S+\/chat-0 \(no other host has 12 GiB free\)\n.*\n +metalbridge uncordon/,
  );
  expect(must(await desk.client.get(HOSTS, { name: host })).spec.drain).toBe(true);
});

test.each([["SIGINT"], ["SIGTERM"]] as const)(
  "%s leaves the drain set and says how to cancel it",
  async (signal) => {
    await using desk = await openDesk();
    const host = await desk.host();
    await desk.replica("chat-0", host, { phase: "Ready" });
    await using drain = startProgram(["drain", host], desk);
    await drain.until(/runs until/);
    drain.child.kill(signal);
    const { code, stdout } = await drain.ended;
    expect(code).toBe(130);
    expect(stdout).toMatch(new RegExp(`to cancel it: metalbridge uncordon ${host}\n$`));
    expect(must(await desk.client.get(HOSTS, { name: host })).spec.drain).toBe(true);
  },
);

test("stops following when the host is uncordoned or deleted", async () => {
  await using desk = await openDesk();
  for (const [end, code] of [
    [(host: string) => runVerb(["uncordon", host], desk), "DrainTakenBack"],
    [(host: string) => desk.cluster.objects.remove("", `host/${host}`), "HostNotFound"],
  ] as const) {
    const host = await desk.host();
    await desk.replica(`left-on-${host}`, host, { phase: "Ready" });
    await using drain = startProgram(["drain", host], desk);
    await drain.until(/runs until/);
    await end(host);
    expect(await drain.ended).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(new RegExp(`^${code}: `)),
    });
  }
});

test("an API server that goes away is waited for", async () => {
  await using cluster = await startCluster();
  await using desk = await openDesk(cluster);
  const host = await desk.host();
  await desk.replica("chat-0", host, { phase: "Ready" });
  await using drain = startProgram(["drain", host], desk);
  await drain.until(/runs until/);
  await cluster.stopApiServer();
  await expect
    .poll(() => drain.stderr(), { timeout: 60_000 })
    .toMatch(/^Api\w+: cannot watch .*; still trying$/m);
  await cluster.startApiServer();
  must(await desk.client.remove(INFERENCE_REPLICAS, { name: "chat-0", namespace: desk.namespace }));
  await tellDrained(desk, host, "True", "HostDrained", "nothing is left");
  expect(await drain.ended).toMatchObject({ code: 0, stderr: expect.stringContaining("answers again") });
});
