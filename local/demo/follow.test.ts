import { expect, it } from "vitest";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { followUntilReady } from "./follow.ts";
import type { AppliedObjects } from "./judge.ts";
import { createDemoScreen } from "./screen.ts";

it("returns at once when stopped before it began", async () => {
  const stop = new AbortController();
  stop.abort(new Error("stopped while starting"));
  const following = followUntilReady({
    connection: {} as KubeConnection, // nothing is asked of it
    applied: {} as AppliedObjects,
    screen: createDemoScreen({ stream: process.stderr, isTerminal: false }),
    startedAtMs: performance.now(),
    timeoutMs: 60_000,
    signal: stop.signal,
  });
  await expect(following).rejects.toThrow("stopped while starting");
});
