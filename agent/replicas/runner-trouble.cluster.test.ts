/** What goes wrong on a host, with real processes: each gives a reason that says what to do, and none ends the agent. */
import { mkdirSync, renameSync, rmdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { expect, test, vi } from "vitest";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { withBench } from "../../test/replicas/with-bench.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
const PATIENT = { timeout: 60_000 };
const quick = { startBaseMs: 400, startPerGiBMs: 0, startMaxFactor: 1, outsideMs: 300 };

it(
  "stops an engine that never becomes healthy, and retries after a longer delay each time",
  withBench(async (bench) => {
    const llamaServer = bench.program("exec sleep 1000");
    await bench.startAgent({ llamaServer, timings: quick });
    await bench.createReplica("chat-0-b");
    const held = await bench.untilExit("chat-0-b", "EngineNeverHealthy");
    expect(held.status?.lastExit).toMatchObject({ killedByUs: true, signal: "SIGKILL" });
    await bench.untilReplica("chat-0-b", (found) => expect(found?.status?.restarts).toBeGreaterThan(1));
    expect((await bench.slice("chat-0-b"))?.endpoints ?? []).toEqual([]);
  }),
);

it(
  "says of a start that its service gives too little time that it does, and starts it once there is enough",
  withBench(async (bench) => {
    const llamaServer = bench.program('sleep 2; exec "$REAL" "$@"');
    await bench.startAgent({ llamaServer, timings: { backoffFirstMs: 50, backoffMaxMs: 50 } });
    await bench.createReplica("chat-0-l", (spec) => Object.assign(spec, { probes: { startSeconds: 1 } }));
    await bench.untilReplica("chat-0-l", (found) => {
      expect(found?.status?.message).toContain("its service requires 1 s (probeOverrides)");
      expect(found?.status?.message).toContain("raise probeOverrides.startup");
    });
    await bench.patchSpec("chat-0-l", { probes: { startSeconds: 60 } });
    expect((await bench.untilPhase("chat-0-l", "Ready")).status?.restarts).toBeGreaterThan(0);
  }),
);

it(
  "starts an engine that crashes at once again, then holds it back twice as long each time, with its last words in status",
  withBench(async (bench) => {
    const llamaServer = bench.program(
      `date +%s%N >>${bench.place.root}/starts; echo "these are my last words, says pid $$" >&2; exit 3`,
    );
    await bench.startAgent({ llamaServer, timings: { backoffFirstMs: 300 }, random: () => 0 });
    await bench.createReplica("chat-0-c");
    const nextTryAt = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    const lastExit = { code: 3, killedByUs: false };
    const held = await bench.untilReplica("chat-0-c", (found) => {
      expect(found?.status).toMatchObject({ phase: "Backoff", reason: "EngineCrashed", nextTryAt, lastExit });
      return found;
    });
    expect(held?.status?.lastExit?.logTail).toContain("these are my last words");
    const starts = await bench.lines("starts", 5);
    const gaps = starts.slice(1).map((at, index) => (at - (starts[index] ?? 0)) / 1e6);
    expect(gaps[1]).toBeGreaterThanOrEqual(300);
    expect(gaps[2]).toBeGreaterThanOrEqual(600);
    expect(gaps[3]).toBeGreaterThanOrEqual(1_200);
    // One Event for all of its ends, counted.
    await bench.objects.until(held?.metadata.namespace ?? "", "events.events.k8s.io", (events) => {
      const ends = events.filter(({ reason }: { reason: string }) => reason === "EngineCrashed");
      expect(ends).toHaveLength(1);
      expect(ends[0].note).toMatch(
        /\(exit code 3; last log lines: .*these are my last words, says pid \d+\)$/,
      );
      expect(ends[0].series?.count).toBeGreaterThan(3);
    });
  }),
);

it(
  "takes another port when a stranger has its own, and never signals the stranger",
  withBench(async (bench) => {
    const first = await bench.startAgent();
    await bench.createReplica("chat-0-e");
    const before = await bench.untilPhase("chat-0-e", "Ready");
    const port = before.status?.port ?? 0;
    await first.end();
    process.kill(before.status?.pid ?? 0, "SIGKILL");
    const stranger = createServer();
    await vi.waitFor(
      () =>
        new Promise<void>((resolve, reject) => {
          stranger.once("error", reject);
          stranger.listen(port, "127.0.0.1", () => resolve());
        }),
      PATIENT,
    );
    await bench.startAgent();
    await bench.untilReplica("chat-0-e", (found) => {
      expect(found?.status).toMatchObject({ phase: "Ready", restarts: 1 });
      expect(found?.status?.port).not.toBe(port);
    });
    expect(stranger.listening).toBe(true);
    stranger.close();
  }),
);

it(
  "withdraws and replaces an engine that lives and does not answer",
  withBench(async (bench) => {
    const agent = await bench.startAgent({ timings: { liveProbeMs: 200, failedProbeMs: 50 } });
    await bench.createReplica("chat-0-f", (spec) => {
      Object.assign(spec, { probes: { timeoutSeconds: 1, failureThreshold: 3 } });
    });
    const before = await bench.untilPhase("chat-0-f", "Ready");
    const pid = before.status?.pid ?? 0;
    process.kill(pid, "SIGSTOP");
    const held = await bench.untilExit("chat-0-f", "EngineHung");
    expect(held.status?.lastExit).toMatchObject({ killedByUs: true });
    // A stopped process answers nothing: no second probe.
    // In its story: the next start may have replaced the message.
    const story = held.status?.transitions?.map(({ message }) => message).join("\n");
    expect(story).toContain("its process is stopped (SIGSTOP); no answer within");
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
    const after = await bench.untilPhase("chat-0-f", "Ready");
    expect(after.status?.pid).not.toBe(pid);
    expect(agent.runner.snapshot()).toHaveLength(1);
  }),
);

it(
  "recognises a server of another model behind its port, and announces nothing",
  withBench(async (bench) => {
    const rename =
      'for word; do shift; if [ "$word" = chat ]; then word=stranger; fi; set -- "$@" "$word"; done';
    const llamaServer = bench.program(`${rename}; exec "$REAL" "$@"`);
    await bench.startAgent({ llamaServer, timings: { requestRetryMs: 50 } });
    await bench.createReplica("chat-0-i");
    const held = await bench.untilExit("chat-0-i", "EngineRequestFailed");
    expect(held.status?.lastExit).toMatchObject({ killedByUs: true });
    expect((await bench.slice("chat-0-i"))?.endpoints ?? []).toEqual([]);
  }),
);

it(
  "starts nothing over a run directory that it cannot read, and takes it up once it can",
  withBench(async (bench) => {
    const first = await bench.startAgent();
    const { metadata } = await bench.createReplica("chat-0-j");
    const before = await bench.untilPhase("chat-0-j", "Ready");
    await first.end();
    const dir = `${bench.stateDir}/engines/${metadata.uid}`;
    // Root may read every file; a folder in its place is unreadable for every user.
    for (const name of ["engine.json", "pid"]) {
      renameSync(`${dir}/${name}`, `${dir}/${name}.away`);
      mkdirSync(`${dir}/${name}`);
    }
    writeFileSync(`${bench.stateDir}/engines/.DS_Store`, "not ours");
    const second = await bench.startAgent({ timings: quick });
    const waiting = await bench.untilPhase("chat-0-j", "Waiting");
    expect(waiting.status).toMatchObject({ reason: "RunDirectoryUnreadable" });
    expect(waiting.status?.message).toContain("is not a regular file");
    expect(second.runner.snapshot()).toHaveLength(1);
    expect(second.runner.knowsAllEngines()).toBe(false);
    for (const name of ["engine.json", "pid"]) {
      rmdirSync(`${dir}/${name}`);
      renameSync(`${dir}/${name}.away`, `${dir}/${name}`);
    }
    const after = await bench.untilPhase("chat-0-j", "Ready");
    expect(after.status).toMatchObject({ pid: before.status?.pid, port: before.status?.port, restarts: 0 });
    expect(second.runner.knowsAllEngines()).toBe(true);
  }),
);
