import { expect, test } from "vitest";
import type { RawRequest } from "../../src/kube/client/connect.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { createOffloadReader } from "./offload.ts";

const pod = (name: string, restartCount?: number, isReady = true): Pod =>
  ({
    apiVersion: "v1",
    kind: "Pod",
    spec: { containers: [] },
    metadata: { name, namespace: "a", uid: name },
    status: {
      conditions: [{ type: "Ready", status: isReady ? "True" : "False" }],
      containerStatuses: [{ name: "engine", restartCount }],
    },
  }) as Pod;

test("the log of a ready pod is read once for each start of its engine", async () => {
  const read: string[] = [];
  const waiting: (() => void)[] = [];
  const reader = createOffloadReader({
    connection: {
      request: async ({ path }: RawRequest) => {
        read.push(path.split("/")[6] ?? "");
        return { ok: true, value: "offloaded 10/10" };
      },
    },
    clock: systemClock,
    log: quietLog,
    signal: new AbortController().signal,
    onRead: () => waiting.shift()?.(),
  });
  const readOnce = async (pods: readonly Pod[], reads: number) => {
    const done = Array.from({ length: reads }, () => new Promise<void>((resolve) => waiting.push(resolve)));
    const before = reader.read("a/chat", pods, () => ({ layers: "all" }));
    await Promise.all(done);
    return [before.known.map((one) => one.pod), before.unread];
  };
  expect(await readOnce([pod("one"), pod("two", 0), pod("starting", 0, false)], 2)).toEqual([[], 2]);
  // A container that has never restarted may say so or say nothing.
  expect(await readOnce([pod("one", 0), pod("two")], 0)).toEqual([["one", "two"], 0]);
  expect(await readOnce([pod("one", 1), pod("two", 0)], 1)).toEqual([["two"], 1]);
  expect(await readOnce([pod("one", 1), pod("two", 0)], 0)).toEqual([["one", "two"], 0]);
  expect(read).toEqual(["one", "two", "one"]);
});
