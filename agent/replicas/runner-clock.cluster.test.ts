/** Clocks that are set, and machines that sleep: neither ends an engine, cuts a request or holds anything back. */
import { expect, test, vi } from "vitest";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { movableClock } from "../../test/fixtures/movable-clock.ts";
import { withBench } from "../../test/replicas/with-bench.ts";
import type { EngineDriver } from "../engines/driver/engine.ts";
import { createEngineDrivers, type RegistryOptions } from "../engines/registry.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
const HOUR = 3_600_000;

it(
  "a wall clock that is set forward ends no drain before its deadline",
  withBench(async (bench) => {
    const { clock, setWall } = movableClock();
    await bench.startAgent({ clock, timings: { propagationMs: 0 } });
    await bench.createReplica("chat-0-ca", (spec) => {
      Object.assign(spec.template.engine, { contextSize: 8_192 });
      // A probe that finds it frozen ends it.
      Object.assign(spec, { drainSeconds: 600, probes: { timeoutSeconds: 120 } });
    });
    const { status } = await bench.untilPhase("chat-0-ca", "Ready");
    const answer = await fetch(`http://${bench.address}:${status?.port}/completion`, {
      method: "POST",
      body: JSON.stringify({ prompt: "a", n_predict: 500, ignore_eos: true, stream: true }),
    });
    const whole = answer.text();
    // Frozen until the drain has been seen: on any machine the answer is still on its way then.
    process.kill(status?.pid ?? 0, "SIGSTOP");
    const deadline = new Date(Date.now() + 10 * 60_000).toISOString().replace(/\.\d+Z$/, "Z");
    await bench.patchSpec("chat-0-ca", { drain: { reason: "HostDrain", deadline } });
    await bench.untilReason("chat-0-ca", "AwaitingQuiet");
    setWall(HOUR);
    process.kill(status?.pid ?? 0, "SIGCONT");
    expect(await whole).toContain('"stop":true');
    await bench.untilPhase("chat-0-ca", "Stopped");
  }),
);

it(
  "a wall clock that is set back holds no crashed engine back",
  withBench(async (bench) => {
    const { clock, setWall } = movableClock();
    await bench.startAgent({ clock, timings: { firstRestartMs: 5_000 } });
    await bench.createReplica("chat-0-cb");
    const before = await bench.untilPhase("chat-0-cb", "Ready");
    process.kill(before.status?.pid ?? 0, "SIGKILL");
    await bench.untilExit("chat-0-cb", "EngineKilled");
    setWall(-24 * HOUR);
    const after = await bench.untilPhase("chat-0-cb", "Ready");
    expect(after.status).toMatchObject({ restarts: 1 });
  }),
);

it(
  "an engine that was loading when the machine fell asleep may continue to load",
  withBench(async (bench) => {
    const { clock, sleep } = movableClock();
    const slow = bench.program('sleep 3; exec "$REAL" "$@"');
    const agent = await bench.startAgent({ clock, llamaServer: slow });
    await bench.createReplica("chat-0-cc");
    await bench.untilReason("chat-0-cc", "LoadingModel");
    sleep(HOUR);
    agent.runner.wake({ countedMs: HOUR });
    agent.relist();
    const { status } = await bench.untilPhase("chat-0-cc", "Ready");
    expect(status).toMatchObject({ restarts: 0 });
    expect(status?.lastExit).toBeUndefined();
  }),
);

it(
  "every engine is asked as soon as the machine wakes, and keeps its process",
  withBench(async (bench) => {
    const { clock, sleep } = movableClock();
    let asked = 0;
    const agent = await bench.startAgent({
      clock,
      drivers: (options) => counting(() => (asked += 1), options),
      // So that nothing but the wake is a reason to ask.
      timings: { liveProbeMs: 600_000 },
    });
    await bench.createReplica("chat-0-cd");
    const before = await bench.untilPhase("chat-0-cd", "Ready");
    const askedBefore = asked;
    sleep(HOUR);
    agent.runner.wake({ countedMs: HOUR });
    await vi.waitFor(() => expect(asked).toBeGreaterThan(askedBefore), { timeout: 60_000, interval: 5 });
    agent.relist();
    expect((await bench.untilPhase("chat-0-cd", "Ready")).status).toMatchObject({
      pid: before.status?.pid,
      restarts: 0,
    });
  }),
);

/** The real drivers; each live probe is counted when it is answered. */
function counting(onProbe: () => void, options: RegistryOptions): ReadonlyMap<string, EngineDriver> {
  const drivers = createEngineDrivers(options);
  return new Map(
    [...drivers].map(([name, { probeLive, ...driver }]) => [
      name,
      {
        ...driver,
        probeLive: probeLive && ((...ask) => probeLive(...ask).finally(onProbe)),
      } satisfies EngineDriver,
    ]),
  );
}
