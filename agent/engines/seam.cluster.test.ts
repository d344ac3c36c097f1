/** What an engine has to bring along: two tiny real programs under the real runner, one with a process per replica, one shared daemon. */
import { expect, test, vi } from "vitest";
import { freePort } from "../../test/bed/ports.ts";
import type { Bench } from "../../test/replicas/bench.ts";
import { withBench } from "../../test/replicas/with-bench.ts";
import type { RegistryOptions } from "./registry.ts";
import { tinyDaemonDriver, tinyEngineDriver, tinyModels } from "./testing/tiny-drivers.ts";

const PATIENT = { timeout: 60_000, interval: 20 };

test(
  "an engine with a process per replica is started, adopted by the next agent, restarted after a crash, and drained",
  withBench(async (bench) => {
    const drivers = ({ instances }: RegistryOptions) => new Map([["generic", tinyEngineDriver(instances)]]);
    const first = await bench.startAgent({ drivers });
    await create(bench, "one", "generic", "one");
    await create(bench, "two", "generic", "two");
    const one = await bench.untilPhase("one", "Ready");
    const two = await bench.untilPhase("two", "Ready");
    expect(one.status?.pid).not.toBe(two.status?.pid);
    await first.end();
    const { runner } = await bench.startAgent({ drivers });
    expect(
      runner
        .snapshot()
        .map(({ pid }) => pid)
        .sort(),
    ).toEqual([one.status?.pid, two.status?.pid].sort());
    expect(runner.addressesInUse()).toEqual([bench.address, bench.address]);
    process.kill(one.status?.pid ?? 0, "SIGKILL");
    await bench.untilExit("one", "EngineKilled");
    expect((await bench.untilPhase("one", "Ready")).status).toMatchObject({ restarts: 1 });
    expect((await bench.replica("two"))?.status).toMatchObject({ restarts: 0, pid: two.status?.pid });
    await bench.deleteReplica("two");
    await bench.untilGone("two");
    expect(isAlive(two.status?.pid)).toBe(false);
    await vi.waitFor(() => expect(runner.addressesInUse()).toEqual([bench.address]), PATIENT);
  }),
);

test(
  "a shared daemon is one process for several models, and unloads each when its last replica goes",
  withBench(async (bench) => {
    const port = await freePort();
    const drivers = ({ instances }: RegistryOptions) =>
      new Map([["ollama", tinyDaemonDriver(instances, port)]]);
    const first = await bench.startAgent({ drivers });
    for (const [name, model] of [
      ["a-0", "a"],
      ["a-1", "a"],
      ["b-0", "b"],
    ] as const)
      await create(bench, name, "ollama", model);
    const ready = await Promise.all(["a-0", "a-1", "b-0"].map((name) => bench.untilPhase(name, "Ready")));
    const pid = ready[0]?.status?.pid;
    expect(ready.map(({ status }) => status?.pid)).toEqual([pid, pid, pid]);
    expect([...(await tinyModels(port))].sort()).toEqual(["a", "b"]);

    await first.end();
    expect(isAlive(pid)).toBe(true);
    const { runner } = await bench.startAgent({ drivers });
    expect(runner.snapshot().map((replica) => replica.pid)).toEqual([pid, pid, pid]);

    await bench.deleteReplica("a-0");
    await bench.untilGone("a-0");
    expect([...(await tinyModels(port))].sort()).toEqual(["a", "b"]);
    await bench.deleteReplica("a-1");
    await bench.untilGone("a-1");
    expect(await tinyModels(port)).toEqual(["b"]);
    expect((await bench.replica("b-0"))?.status).toMatchObject({ phase: "Ready", restarts: 0, pid });

    process.kill(pid ?? 0, "SIGKILL");
    await bench.untilExit("b-0", "EngineKilled");
    const again = await bench.untilPhase("b-0", "Ready");
    expect(again.status).toMatchObject({ restarts: 1 });
    expect(again.status?.pid).not.toBe(pid);
    expect(await tinyModels(port)).toEqual(["b"]);

    await bench.deleteReplica("b-0");
    await vi.waitFor(() => expect(isAlive(again.status?.pid)).toBe(false), PATIENT);
  }),
);

test(
  "a shared daemon that hangs is killed, and serves both of its models again",
  withBench(async (bench) => {
    const port = await freePort();
    const drivers = ({ instances }: RegistryOptions) =>
      new Map([["ollama", tinyDaemonDriver(instances, port)]]);
    const timings = { liveProbeMs: 200, failedProbeMs: 50, backoffFirstMs: 100 };
    await bench.startAgent({ drivers, timings });
    await create(bench, "a-0", "ollama", "a");
    await create(bench, "b-0", "ollama", "b");
    const before = await bench.untilPhase("a-0", "Ready");
    await bench.untilPhase("b-0", "Ready");
    process.kill(before.status?.pid ?? 0, "SIGSTOP");
    await vi.waitFor(() => expect(isAlive(before.status?.pid)).toBe(false), PATIENT);
    for (const name of ["a-0", "b-0"]) {
      await bench.untilReplica(name, (found) => {
        expect(found?.status).toMatchObject({ phase: "Ready" });
        expect(found?.status?.pid).not.toBe(before.status?.pid);
      });
    }
    expect([...(await tinyModels(port))].sort()).toEqual(["a", "b"]);
  }),
);

function create(bench: Bench, name: string, runtime: "generic" | "ollama", service: string) {
  return bench.createReplica(name, ({ template }) => {
    Object.assign(template, { runtime, serviceName: service });
  });
}

function isAlive(pid: number | undefined): boolean {
  try {
    return pid !== undefined && process.kill(pid, 0);
  } catch {
    return false;
  }
}
