import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { listenForStop } from "./stop-signals.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
const before = new Map(SIGNALS.map((name) => [name, process.listeners(name)]));

beforeEach(() => void vi.spyOn(performance, "now").mockReturnValue(0));
afterEach(() => {
  vi.restoreAllMocks();
  for (const name of SIGNALS) {
    process.removeAllListeners(name);
    for (const listener of before.get(name) ?? []) process.on(name, listener);
  }
});

function at(ms: number): void {
  vi.mocked(performance.now).mockReturnValue(ms);
}

test("one Ctrl-C that arrives twice, from the terminal and from npm, is one request", () => {
  const stop = listenForStop();
  process.emit("SIGINT");
  at(20);
  process.emit("SIGINT");
  expect(stop.signal.aborted).toBe(true);
  expect(stop.again.aborted).toBe(false);
  expect(stop.exitCode()).toBe(130);
});

test.each(SIGNALS)("%s a second later is a second request", (name) => {
  const stop = listenForStop();
  process.emit("SIGTERM");
  at(1_000);
  process.emit(name);
  expect(stop.again.aborted).toBe(true);
  expect(stop.exitCode()).toBe(0);
});

test("a request from inside counts like a signal", () => {
  const stop = listenForStop();
  stop.stop();
  expect(stop.signal.aborted).toBe(true);
  at(5_000);
  process.emit("SIGTERM");
  expect(stop.again.aborted).toBe(true);
});
