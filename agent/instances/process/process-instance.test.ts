import { expect, test } from "vitest";
import { isLiving, processPorts, runFolder, shell } from "../../../src/supervise/fixtures/run.ts";
import { createSupervisor } from "../../../src/supervise/supervisor.ts";
import { until } from "../../../test/bed/until.ts";
import type { Instance } from "../instance.ts";
import { createProcessInstances } from "./process-instance.ts";

const target = { host: "127.0.0.1", port: 1 };
const ports = processPorts();
const { clock, log } = ports;

/** A shell that records each TERM and obeys the given one; TERM does not interrupt a step of its work. */
const noting = (obeys: number) =>
  shell(
    `count=0; trap 'count=$((count + 1)); echo "TERM $count"; [ $count -ge ${obeys} ] && exit 7' TERM
    echo ready; while :; do sleep 0.05; done`,
  );

function open(dir: string, command: ReturnType<typeof shell>, log = ports.log) {
  const processes = createProcessInstances(createSupervisor(ports), {
    clock,
    footprintBytes: async (pid) => pid,
  });
  return processes.open({ dir, log, onChange: () => {} }, { ...command, target });
}

const inLog = (text: string) => (tail: string) => tail.includes(text);

/** The pid is read from a file, which can appear later than the first line of output. */
const untilRunning = (instance: Instance) =>
  until(() => expect(instance.state()).toMatchObject({ at: "running" }));

test("an engine that obeys TERM receives it once and exits before its deadline", async () => {
  await using folder = runFolder();
  const instance = await open(folder.dir(), noting(1));
  await until(async () => expect(await instance.logTail(1_000)).toSatisfy(inLog("ready")));
  await untilRunning(instance);
  instance.stopBy(clock.monotonicMs() + 30_000);
  expect(instance.state()).toMatchObject({ at: "running", ending: "stopping" });
  await until(() => expect(instance.state()).toEqual({ at: "gone", exit: { code: 7 } }));
  expect(await instance.logTail(1_000)).not.toContain("TERM 2");
});

test("an engine that continues after the first TERM receives a second one before it is killed", async () => {
  await using folder = runFolder();
  const second = await open(folder.dir("second"), noting(2));
  const never = await open(folder.dir("never"), noting(9));
  for (const instance of [second, never]) {
    await until(async () => expect(await instance.logTail(1_000)).toSatisfy(inLog("ready")));
    await untilRunning(instance);
  }
  // The second TERM is sent after a third of this time, which leaves enough time for a shell on a busy machine.
  second.stopBy(clock.monotonicMs() + 3_000);
  never.stopBy(clock.monotonicMs() + 900);
  await until(() => expect(second.state()).toEqual({ at: "gone", exit: { code: 7 } }));
  await until(() => expect(never.state()).toEqual({ at: "gone", exit: { signal: "SIGKILL" } }));
  expect(await never.logTail(1_000)).toContain("TERM 2");
});

test("an earlier stop deadline replaces the current one, and a later one is ignored", async () => {
  await using folder = runFolder();
  const instance = await open(folder.dir(), noting(9));
  await until(async () => expect(await instance.logTail(1_000)).toSatisfy(inLog("ready")));
  instance.stopBy(clock.monotonicMs() + 60_000);
  instance.stopBy(clock.monotonicMs() + 100);
  instance.stopBy(clock.monotonicMs() + 60_000);
  await until(() => expect(instance.state()).toEqual({ at: "gone", exit: { signal: "SIGKILL" } }));
});

test("processes that an engine leaves behind are killed, and its exit status is kept", async () => {
  await using folder = runFolder();
  const instance = await open(folder.dir(), shell('(trap "" TERM; sleep 1000) & echo "child $!"; wait'));
  await until(async () => expect(await instance.logTail(1_000)).toSatisfy(inLog("child")));
  const child = Number(/child (\d+)/.exec(await instance.logTail(1_000))?.[1]);
  // The pid is read from a file, which can appear later than the first line of output.
  await until(async () => expect(await instance.footprintBytes()).toBeGreaterThan(1));
  instance.killNow();
  await until(() => expect(instance.state()).toEqual({ at: "gone", exit: { signal: "SIGKILL" } }));
  expect(isLiving(child)).toBe(false);
  expect(await instance.footprintBytes()).toBeUndefined();
});

test("the agent that adopted an engine can stop it", async () => {
  await using folder = runFolder();
  const dir = folder.dir();
  const first = await open(dir, noting(1));
  await until(async () => expect(await first.logTail(1_000)).toSatisfy(inLog("ready")));
  await untilRunning(first);
  first.close();
  const next = createProcessInstances(createSupervisor(ports), { clock, footprintBytes: async () => 1 });
  const adopted = await next.adopt({ dir, log, onChange: () => {} }, target);
  expect(adopted?.state()).toMatchObject({ at: "running" });
  adopted?.stopBy(clock.monotonicMs() + 30_000);
  await until(() => expect(adopted?.state()).toEqual({ at: "gone", exit: { code: 7 } }));
});
