/**
 * Engines whose /health answers 200 but that serve no requests: detected, withdrawn, stopped, and only then
 * replaced.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test, vi } from "vitest";
import type { AnsweringFault } from "../../test/fixtures/answering-engine.ts";
import { WITH_COMPILE_CACHE } from "../../test/fixtures/compile-cache.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import type { Bench } from "../../test/replicas/bench.ts";
import { withBench } from "../../test/replicas/with-bench.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
const ENGINE = fileURLToPath(new URL("../../test/fixtures/answering-engine.ts", import.meta.url));
/** The backoff is long enough to be observed. */
const timings = { liveProbeMs: 100, stallMs: 1_500, firstRestartMs: 6_000, proveAgainMs: 200 };

/** The first start has the fault, later ones are the real engine; each notes its pid, and whether an earlier one lives. */
function faultyOnce(bench: Bench, fault: AnsweringFault): string {
  const { root } = bench.place;
  return bench.program(`cd ${root}
for pid in $(cat pids 2>/dev/null); do kill -0 $pid 2>/dev/null && echo $pid >>overlaps; done
[ -e pids ] && { echo $$ >>pids; exec "$REAL" "$@"; }
echo $$ >>pids
${WITH_COMPILE_CACHE}
exec '${process.execPath}' '${ENGINE}' ${fault} "$@"`);
}

/** From Ready to the successor's Ready; what status and slice show meanwhile. */
async function replaced(bench: Bench, name: string, reason: string, probes?: object): Promise<string> {
  await bench.createReplica(name, (spec) => {
    if (probes !== undefined) Object.assign(spec, { probes });
  });
  // Not by its status: it may be Ready for less time than a look takes.
  const [pid = 0] = await bench.lines("pids", 1);
  const held = await bench.untilExit(name, reason);
  expect(held.status).toMatchObject({ phase: "Backoff", reason, restarts: 1 });
  expect(held.status?.lastExit).toMatchObject({ killedByUs: true, signal: "SIGKILL" });
  expect((await bench.slice(name))?.endpoints?.[0]?.conditions).toMatchObject({ ready: false });
  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  const after = await bench.untilPhase(name, "Ready");
  expect(await bench.lines("pids", 2)).toEqual([pid, after.status?.pid]);
  expect(() => readFileSync(`${bench.place.root}/overlaps`)).toThrow("ENOENT");
  expect((await bench.slice(name))?.endpoints?.[0]?.conditions).toMatchObject({ ready: true });
  return held.status?.message ?? "";
}

it(
  "replaces an engine that has work and decodes nothing",
  withBench(async (bench) => {
    await bench.startAgent({ llamaServer: faultyOnce(bench, "decodes-nothing"), timings });
    const message = await replaced(bench, "chat-0-h", "EngineHung");
    expect(message).toMatch(/1 request in flight, and no token was processed for \d s/);
  }),
);

it(
  "keeps an engine that is silent while it computes, for longer than one that sleeps would be kept",
  withBench(async (bench) => {
    const agent = await bench.startAgent({
      llamaServer: faultyOnce(bench, "computes"),
      timings: { liveProbeMs: 1_000 },
    });
    await bench.createReplica("chat-0-k", (spec) =>
      Object.assign(spec, { probes: { timeoutSeconds: 1, failureThreshold: 3 } }),
    );
    const { status } = await bench.untilPhase("chat-0-k", "Ready");
    await fetch(`http://127.0.0.1:${status?.port}/compute`);
    expect(agent.runner.snapshot()).toMatchObject([{ phase: "Ready", pid: status?.pid, restarts: 0 }]);
  }),
);

it(
  "replaces an engine that answers /health and leaves the question for its gauges open",
  withBench(async (bench) => {
    await bench.startAgent({ llamaServer: faultyOnce(bench, "answers-between-steps"), timings });
    const message = await replaced(bench, "chat-0-o", "EngineHung");
    expect(message).toMatch(/\/health answers, and \/metrics has not answered for \d s/);
  }),
);

it(
  "replaces an engine that logs errors and fails a real request",
  withBench(async (bench) => {
    await bench.startAgent({ llamaServer: faultyOnce(bench, "out-of-memory"), timings });
    const message = await replaced(bench, "chat-0-m", "EngineDegraded");
    expect(message).toContain("kIOGPUCommandBufferCallbackErrorOutOfMemory");
    expect(message).toContain("HTTP 500: Compute error");
  }),
);

it(
  "keeps an engine that logs errors and answers a real request, and says so once",
  withBench(async (bench) => {
    const events: string[] = [];
    const agent = await bench.startAgent({
      llamaServer: faultyOnce(bench, "recovers"),
      timings,
      cluster: {
        recorder: (_regarding, { reason, note }) => {
          if (reason === "EngineErrorsLogged") events.push(note);
        },
      },
    });
    const { metadata } = await bench.createReplica("chat-0-r");
    const before = await bench.untilPhase("chat-0-r", "Ready");
    const log = `${bench.stateDir}/engines/${metadata.uid}/log`;
    await vi.waitFor(() => expect(readFileSync(log, "utf8")).toContain("answered 4"), {
      timeout: 60_000,
      interval: 50,
    });
    expect(events).toHaveLength(1);
    expect(events[0]).toContain("kIOGPUCommandBufferCallbackErrorOutOfMemory");
    expect(agent.runner.snapshot()).toMatchObject([{ phase: "Ready", pid: before.status?.pid, restarts: 0 }]);
  }),
);

it(
  "continues to drain while requests begin and finish between its readings",
  withBench(async (bench) => {
    const agent = await bench.startAgent({
      llamaServer: faultyOnce(bench, "short-requests"),
      timings: { propagationMs: 0 },
    });
    await bench.createReplica("chat-0-q", (spec) => Object.assign(spec, { drainSeconds: 600 }));
    const { status } = await bench.untilPhase("chat-0-q", "Ready");
    const ask = async (path: string) => {
      const answer = await fetch(`http://127.0.0.1:${status?.port}${path}`);
      return ((await answer.json()) as { looks: number }).looks;
    };
    await bench.patchSpec("chat-0-q", { drain: { reason: "HostDrain" } });
    await bench.untilReason("chat-0-q", "AwaitingQuiet");
    const before = await ask("/looks");
    // Four times as many as quiet would have taken.
    await vi.waitFor(async () => expect(await ask("/looks")).toBeGreaterThan(before + 20), {
      timeout: 60_000,
      interval: 50,
    });
    expect(agent.runner.snapshot()).toMatchObject([{ phase: "Draining", pid: status?.pid }]);
    await ask("/rest");
    expect((await bench.untilPhase("chat-0-q", "Stopped")).status).toMatchObject({ reason: "Drained" });
  }),
);
