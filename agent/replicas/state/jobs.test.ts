import { expect, test, vi } from "vitest";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import { until } from "../../../test/bed/until.ts";
import { createJobs } from "./jobs.ts";

const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => quiet };

function setup(random = 0) {
  let now = 0;
  const clock: Clock = { ...systemClock, monotonicMs: () => now };
  const onDone = vi.fn();
  const onRetry = vi.fn();
  const { signal } = new AbortController();
  const jobs = createJobs({ clock, log: quiet, signal, onDone, onRetry, random: () => random });
  return {
    jobs,
    onDone,
    onRetry,
    pass: (ms: number) => {
      now += ms;
    },
  };
}

test("a job of one name runs once at a time, and its completion is reported", async () => {
  const { jobs, onDone } = setup();
  const waiting: (() => void)[] = [];
  const work = vi.fn(() => new Promise<boolean>((resolve) => void waiting.push(() => resolve(true))));
  jobs.run("probe", work);
  jobs.run("probe", work);
  expect(jobs.isRunning("probe")).toBe(true);
  waiting[0]?.();
  await until(() => expect(onDone).toHaveBeenCalledTimes(1));
  expect(work).toHaveBeenCalledTimes(1);
  expect(jobs.isRunning("probe")).toBe(false);
});

test("a failed job is retried with growing delays", async () => {
  const { jobs, onDone, onRetry, pass } = setup();
  const work = vi.fn(async () => {
    throw new Error("no");
  });
  jobs.run("write", work);
  await until(() => expect(onDone).toHaveBeenCalledTimes(1));
  jobs.run("write", work);
  expect(work).toHaveBeenCalledTimes(1);
  pass(500);
  jobs.run("write", work);
  await until(() => expect(onDone).toHaveBeenCalledTimes(2));
  expect(onRetry.mock.calls).toEqual([[500], [1_000]]);
});

test("API writes that failed during an outage are retried at once after it, other jobs after their backoff", async () => {
  const { jobs, onDone } = setup();
  const work = vi.fn(async () => false);
  jobs.run("write", work);
  jobs.run("fetch", work);
  await until(() => expect(onDone).toHaveBeenCalledTimes(2));
  jobs.clearBackoff(["write"]);
  jobs.run("fetch", work);
  expect(work).toHaveBeenCalledTimes(2);
  jobs.run("write", work);
  expect(work).toHaveBeenCalledTimes(3);
});

test("jobs that failed together on many hosts are not retried in step", async () => {
  const delays: number[] = [];
  for (const random of [0, 0.5, 1]) {
    const { jobs, onRetry } = setup(random);
    jobs.run("write", async () => false);
    await until(() => expect(onRetry).toHaveBeenCalledTimes(1));
    delays.push(...onRetry.mock.calls.flat());
  }
  expect(delays).toEqual([500, 550, 600]);
});

test("canceling a job aborts its signal", async () => {
  const { jobs, onDone } = setup();
  const seen = vi.fn();
  jobs.run(
    "fetch",
    (signal) =>
      new Promise((resolve) => {
        signal.addEventListener("abort", () => {
          seen();
          resolve(true);
        });
      }),
  );
  jobs.cancel("fetch");
  await until(() => expect(onDone).toHaveBeenCalledTimes(1));
  expect(seen).toHaveBeenCalledTimes(1);
});

test("a job with an unchanged result triggers no pass, and may run again", async () => {
  const { jobs, onDone } = setup();
  const work = vi.fn(async () => "unchanged" as const);
  jobs.run("probe", work);
  await until(() => expect(jobs.isRunning("probe")).toBe(false));
  expect(onDone).not.toHaveBeenCalled();
  jobs.run("probe", work);
  expect(work).toHaveBeenCalledTimes(2);
});
