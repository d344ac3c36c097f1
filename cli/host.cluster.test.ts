/** `metalbridge host`, `cordon` and `uncordon` against the real API server. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { expect, test } from "vitest";
import { shellWord } from "../local/shell-word.ts";
import { HOSTS } from "../src/api/kinds.ts";
import { must } from "../test/bed/must.ts";
import { openDesk } from "../test/cli/objects.ts";
import { runVerb } from "../test/cli/program.ts";

test("a host is cordoned and uncordoned, twice without harm, and nothing else of its spec changes", async () => {
  await using desk = await openDesk();
  const host = await desk.host({
    "spec.addresses": ["192.168.1.21"],
    "spec.memory": { systemReserve: "8Gi" },
  });
  const spec = async () => must(await desk.client.get(HOSTS, { name: host })).spec;
  const before = await spec();
  const run = (verb: string) => runVerb([verb, host], desk);
  expect(await run("cordon")).toEqual({
    code: 0,
    stdout: expect.stringMatching(/is cordoned: no new replicas/),
    stderr: "",
  });
  expect(await spec()).toEqual({ ...before, unschedulable: true });
  expect(await run("cordon")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/was already cordoned/),
  });
  await runVerb(["drain", host, "--wait=false"], desk);
  expect(await spec()).toEqual({ ...before, unschedulable: true, drain: true });
  expect(await run("uncordon")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/takes new replicas again/),
  });
  expect(await spec()).toEqual(before);
  expect(await run("uncordon")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/neither cordoned nor drained/),
  });
});

test("hosts are listed with what is on them, as text and as JSON", async () => {
  await using desk = await openDesk();
  const host = await desk.host({ "spec.addresses": ["192.168.1.21"], "spec.unschedulable": true });
  await desk.status(HOSTS, host, {
    info: { chip: "Apple M4", os: "darwin", osVersion: "26.1", agentVersion: "0.1.0" },
    memory: { claimedBytes: 1024 ** 3, gpuBudgetBytes: 48 * 1024 ** 3 },
    conditions: [
      {
        type: "Ready",
        status: "True",
        reason: "AgentReady",
        message: "",
        lastTransitionTime: "2026-03-01T12:00:00Z",
      },
    ],
  });
  await desk.replica("chat-0", host, { phase: "Ready" });
  await desk.replica("chat-1", host, { phase: "Starting" });
  const { code, stdout } = await runVerb(["host", "list"], desk);
  expect(code).toBe(0);
  const line = stdout.split("\n").find((one) => one.startsWith(`${host} `));
  expect(line).toMatch(
    /Ready, cordoned +1\/2 +1 GiB of 48 GiB +Apple M4 +192\.168\.1\.21 +macOS 26\.1 +0\.1\.0/,
  );
  const json = JSON.parse((await runVerb(["host", "list", "-o", "json"], desk)).stdout);
  expect(json).toContainEqual(expect.objectContaining({ name: host, replicas: 2, readyReplicas: 1 }));
});

test("a host is marked lost only after a yes, and what is on it is named before", async () => {
  await using desk = await openDesk();
  const host = await desk.host();
  await desk.replica("chat-0", host);
  const annotations = async () => must(await desk.client.get(HOSTS, { name: host })).metadata.annotations;
  const refused = await runVerb(["host", "lost", host], desk);
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/replicas on the host: \S+\/chat-0;[\s\S]*NotConfirmed: /),
  });
  expect(await annotations()).toBeUndefined();
  const done = await runVerb(["host", "lost", host, "--yes"], desk);
  expect(done).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/is marked lost; its replicas will be rescheduled/),
  });
  const lost = (await annotations())?.["metalbridge.dev/lost"] ?? "";
  expect(Math.abs(Date.parse(lost) - Date.now())).toBeLessThan(60_000);
  await desk.cluster.objects.patch("", `host/${host}`, { metadata: { annotations: { team: "blue" } } });
  expect(await runVerb(["host", "lost", host, "--yes"], desk)).toMatchObject({ code: 0 });
  expect(await annotations()).toMatchObject({ team: "blue", "metalbridge.dev/lost": expect.any(String) });
  const forced = await runVerb(["host", "lost", host, "--yes", "--force"], desk);
  expect(forced).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`kubectl annotate host ${host} `),
  });
  expect((await annotations())?.["metalbridge.dev/lost"]).toMatch(/^force 2/);
});

const hasScript = process.platform === "linux" && spawnSync("script", ["--version"]).status === 0;

test.skipIf(!hasScript)("at a terminal it asks, and only yes is a yes (needs Linux and script)", async () => {
  await using desk = await openDesk();
  const host = await desk.host();
  const isLost = async () =>
    must(await desk.client.get(HOSTS, { name: host })).metadata.annotations?.["metalbridge.dev/lost"] !==
    undefined;
  for (const [answer, code] of [
    ["n\r", 1],
    ["\r", 1],
    ["\u0003", 1],
    ["\u0004", 1],
    ["yes\r", 0],
  ] as const) {
    const terminal = startAtTerminal(["host", "lost", host], desk.kubeconfig);
    await expect.poll(terminal.output, { timeout: 60_000 }).toContain(`mark host ${host} as lost? [y/N]`);
    terminal.child.stdin.write(answer);
    expect([JSON.stringify(answer), await terminal.ended]).toEqual([JSON.stringify(answer), code]);
    expect(terminal.output()).toContain(code === 0 ? "is marked lost" : "NotConfirmed: nothing was changed");
    expect(await isLost()).toBe(code === 0);
  }
});

/** The program with a pseudo-terminal as its standard input and output. */
function startAtTerminal(args: readonly string[], kubeconfig: string) {
  const line = [process.execPath, path.join(import.meta.dirname, "metalbridge.mjs"), ...args]
    .map(shellWord)
    .join(" ");
  const child = spawn("script", ["-qec", line, "/dev/null"], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { PATH: process.env.PATH, TERM: "xterm", SHELL: "/bin/sh", KUBECONFIG: kubeconfig },
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  const ended = once(child, "close").then(([code]) => code as number | null);
  return { child, output: () => text, ended };
}

test.each(["cordon", "uncordon", "drain", "host lost"])("%s of a host that is not there", async (verb) => {
  await using desk = await openDesk();
  const { code, stderr } = await runVerb([...verb.split(" "), "no-such-host"], desk);
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: "HostNotFound: there is no Host no-such-host\n  fix the name\n    metalbridge host list\n",
  });
});
