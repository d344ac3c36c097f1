/** What goes wrong on a host, with real processes: each gives a reason that says what to do, and none ends the agent. */
import { mkdirSync, readFileSync, renameSync, rmdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { expect, test, vi } from "vitest";
import { EVENTS } from "../../src/kube/kinds.ts";
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
    await vi.waitFor(
      async () => expect((await bench.replica("chat-0-b"))?.status?.restarts).toBeGreaterThan(1),
      { timeout: 60_000, interval: 50 },
    );
    expect((await bench.slice("chat-0-b"))?.endpoints ?? []).toEqual([]);
  }),
);

it(
  "says of a start that its service gives too little time that it does, and starts it once there is enough",
  withBench(async (bench) => {
    const llamaServer = bench.program('sleep 5; exec "$REAL" "$@"');
    await bench.startAgent({ llamaServer, timings: { backoffFirstMs: 50, backoffMaxMs: 50 } });
    await bench.createReplica("chat-0-l", (spec) => Object.assign(spec, { probes: { startSeconds: 1 } }));
    // The wait is so short that a look may fall into the start after it.
    await vi.waitFor(
      async () => {
        const { status } = await bench.untilExit("chat-0-l", "EngineNeverHealthy");
        expect(status?.message).toContain("its service requires 1 s (probeOverrides)");
        expect(status?.message).toContain("raise probeOverrides.startup");
      },
      { timeout: 60_000, interval: 20 },
    );
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
    // The first waits are so short that a look may fall into the start after them.
    const held = await vi.waitFor(
      async () => {
        const found = await bench.untilExit("chat-0-c", "EngineCrashed");
        expect(found.status).toMatchObject({ phase: "Backoff", nextTryAt, lastExit });
        return found;
      },
      { timeout: 60_000, interval: 20 },
    );
    expect(held.status?.lastExit?.logTail).toContain("these are my last words");
    const starts = await bench.lines("starts", 5);
    const gaps = starts.slice(1).map((at, index) => (at - (starts[index] ?? 0)) / 1e6);
    expect(gaps[1]).toBeGreaterThanOrEqual(300);
    expect(gaps[2]).toBeGreaterThanOrEqual(600);
    expect(gaps[3]).toBeGreaterThanOrEqual(1_200);
    // One Event for all of its ends, counted.
    await vi.waitFor(
      async () => {
        const listed = await bench.client.list(EVENTS, { namespace: held.metadata.namespace ?? "" });
        const ends = listed.ok ? listed.value.items.filter(({ reason }) => reason === "EngineCrashed") : [];
        expect(ends).toHaveLength(1);
        expect(ends[0]?.note).toMatch(
          /\(exit code 3; last log lines: .*these are my last words, says pid \d+\)$/,
        );
        expect(ends[0]?.series?.count).toBeGreaterThan(1);
      },
      { timeout: 60_000, interval: 100 },
    );
  }),
);

for (const [reason, end, how] of [
  ["EngineKilled", "kill -KILL $$", "signal SIGKILL"],
  ["EngineOutOfMemory", 'echo "failed to allocate a buffer at $(date +%s%N)" >&2; exit 1', "exit code 1"],
] as const) {
  it(
    `reports the exits of one crash loop in one Event, with exit status and last log lines: ${reason}`,
    withBench(async (bench) => {
      const llamaServer = bench.program(`echo "pid $$ is here at $(date +%s%N)" >&2; ${end}`);
      await bench.startAgent({ llamaServer, timings: { backoffFirstMs: 200, backoffMaxMs: 200 } });
      await bench.createReplica("chat-0-n");
      const { status, metadata } = await bench.untilExit("chat-0-n", reason);
      expect(status?.lastExit?.logTail).toMatch(/pid \d+ is here at/);
      await vi.waitFor(
        async () => {
          const listed = await bench.client.list(EVENTS, { namespace: metadata.namespace ?? "" });
          const ends = listed.ok ? listed.value.items.filter((event) => event.reason === reason) : [];
          expect(ends).toHaveLength(1);
          expect(ends[0]?.note).toContain(`(${how}; last log lines: `);
          expect(ends[0]?.note).toMatch(/pid \d+ is here at \d+/);
          expect(ends[0]?.series?.count).toBeGreaterThan(12);
        },
        { timeout: 60_000, interval: 100 },
      );
    }),
  );
}

it(
  "reports an engine that is killed under critical memory as out of memory, and restarts it",
  withBench(async (bench) => {
    await bench.startAgent({ memoryLevel: () => "Critical" });
    await bench.createReplica("chat-0-p");
    const before = await bench.untilPhase("chat-0-p", "Ready");
    process.kill(before.status?.pid ?? 0, "SIGKILL");
    const held = await bench.untilExit("chat-0-p", "EngineOutOfMemory");
    expect(held.status?.lastExit).toMatchObject({ signal: "SIGKILL", killedByUs: false });
    expect((await bench.untilPhase("chat-0-p", "Ready")).status?.restarts).toBe(1);
  }),
);

it(
  "restarts an engine after a crash even if a client forged the log line of a bad model",
  withBench(async (bench) => {
    await bench.startAgent({ timings: { firstRestartMs: 6_000 } });
    const { metadata } = await bench.createReplica("chat-0-o");
    const before = await bench.untilPhase("chat-0-o", "Ready");
    const { port, pid = 0 } = before.status ?? {};
    const body = '{"model": "failed to read';
    await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, { method: "POST", body });
    const log = `${bench.stateDir}/engines/${metadata.uid}/log`;
    await vi.waitFor(() => expect(readFileSync(log, "utf8")).toContain("failed to read"), PATIENT);
    process.kill(pid, "SIGSEGV");
    const held = await bench.untilExit("chat-0-o", "EngineCrashed");
    expect(held.status).toMatchObject({ phase: "Backoff", lastExit: { signal: "SIGSEGV" } });
    // A prompt of a client stays in its namespace.
    expect(held.status?.lastExit?.logTail).not.toContain("failed to read");
    expect((await bench.untilPhase("chat-0-o", "Ready")).status?.pid).not.toBe(pid);
  }),
);

it(
  "fails for good on a flag that the engine refuses, and does not try it again",
  withBench(async (bench) => {
    const llamaServer = bench.program(
      `echo x >>${bench.place.root}/starts; echo "error: invalid argument: --no-such-flag" >&2; exit 1`,
    );
    await bench.startAgent({ llamaServer, timings: { backoffFirstMs: 50 } });
    await bench.createReplica("chat-0-d");
    const failed = await bench.untilPhase("chat-0-d", "Failed");
    expect(failed.status).toMatchObject({ reason: "EngineFlagRefused", restarts: 1 });
    expect(failed.status?.message).toContain("--no-such-flag");
    expect(await bench.lines("starts", 1)).toHaveLength(1);
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
    await vi.waitFor(
      async () => {
        const { status } = (await bench.replica("chat-0-e")) ?? {};
        expect(status).toMatchObject({ phase: "Ready", restarts: 1 });
        expect(status?.port).not.toBe(port);
      },
      { timeout: 60_000, interval: 50 },
    );
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

it(
  "withdraws an engine at once whose host has another address, and keeps it when the old one comes back",
  withBench(async (bench) => {
    let address = bench.place.address;
    const timings = { movedMs: 60_000, cutOffMs: 60_000 };
    const agent = await bench.startAgent({ address: () => address, timings });
    await bench.createReplica("chat-0-k");
    const before = await bench.untilPhase("chat-0-k", "Ready");
    address = "192.0.2.7";
    agent.runner.enqueueAll();
    const waiting = await bench.untilPhase("chat-0-k", "Waiting");
    expect(waiting.status).toMatchObject({ reason: "HostAddressMissing" });
    const isReady = async () => (await bench.slice("chat-0-k"))?.endpoints?.[0]?.conditions?.ready;
    await vi.waitFor(async () => expect(await isReady()).toBe(false), PATIENT);
    address = bench.place.address;
    agent.runner.enqueueAll();
    const after = await bench.untilPhase("chat-0-k", "Ready");
    expect(after.status).toMatchObject({ pid: before.status?.pid, restarts: 0 });
  }),
);
