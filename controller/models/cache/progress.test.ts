/** What the controller reads of the logs of download pods, whatever is in them and however many there are. */
import { PassThrough, Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import type { KubeConnection } from "../../../src/kube/client/connect.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { createDownloadFollower } from "./progress.ts";

const pod = (namespace: string, uid: string): Pod => ({
  metadata: { name: uid, namespace, uid },
  spec: { containers: [] },
});

/** Each log that is asked for is the next stream. */
function follow(open: () => Readable) {
  const opened: Readable[] = [];
  const stream = async () => {
    opened.push(open());
    return { ok: true, value: opened.at(-1) };
  };
  const progress = createDownloadFollower({
    connection: { stream } as unknown as Pick<KubeConnection, "stream">,
    clock: systemClock,
    log: quietLog,
    signal: new AbortController().signal,
    onProgress: () => undefined,
  });
  return { opened, progress };
}

test("at most 8 logs of a namespace and 64 in total are followed, and a log that ends makes room", async () => {
  const shape = fc.array(fc.tuple(fc.integer({ min: 0, max: 20 }), fc.nat()), { maxLength: 300 });
  await fc.assert(
    fc.asyncProperty(shape, async (pods) => {
      const { opened, progress } = follow(() => new PassThrough());
      const desired = new Map(pods.map(([namespace, uid]) => [`${namespace}-${uid}`, `n${namespace}`]));
      for (const [uid, namespace] of desired) progress.follow(pod(namespace, uid), "m");
      await setImmediate();
      const counts = [...desired.values()].reduce(
        (sum, one) => sum.set(one, (sum.get(one) ?? 0) + 1),
        new Map<string, number>(),
      );
      const fair = [...counts.values()].reduce((sum, count) => sum + Math.min(8, count), 0);
      expect(opened.length).toBe(Math.min(64, fair));
      const [first] = desired;
      if (first === undefined) return;
      progress.forget(pod(first[1], first[0]));
      const before = opened.length;
      progress.follow(pod(first[1], "another"), "m");
      await setImmediate();
      expect(opened.length).toBe(before + 1);
    }),
    { numRuns: 40 },
  );
});

test("a log is read up to 16 MiB and one chunk, whatever the size of the chunks", async () => {
  const lines = Buffer.from(`{"bytes":1,"totalBytes":2}${" ".repeat(20 << 10)}\n`.repeat(100));
  const sizes = fc.array(fc.integer({ min: 32 << 10, max: lines.length }), { minLength: 1, maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(sizes, async (chunks) => {
      let read = 0;
      let last = 0;
      const ended = Promise.withResolvers<void>();
      const endless = {
        *[Symbol.iterator]() {
          for (let turn = 0; ; turn += 1) {
            last = chunks[turn % chunks.length] ?? 0;
            read += last;
            yield lines.subarray(0, last);
          }
        },
        destroy: ended.resolve,
      };
      const { progress } = follow(() => endless as unknown as Readable);
      progress.follow(pod("n", "p"), "m");
      await ended.promise;
      expect(read).toBeGreaterThan(16 << 20);
      expect(read - last).toBeLessThanOrEqual(16 << 20);
    }),
    { numRuns: 10 },
  );
});

test("a line of a log is read up to 64 KiB", async () => {
  const short = '{"bytes":1,"totalBytes":2}\n';
  const lengths = fc.array(fc.integer({ min: 1, max: 40 << 10 }), {
    minLength: 1,
    maxLength: 6,
    size: "max",
  });
  await fc.assert(
    fc.asyncProperty(lengths, async (chunks) => {
      const line = chunks.map((length) => Buffer.alloc(length, "x"));
      const { opened, progress } = follow(() => Readable.from([...line, Buffer.from(`\n${short}`)]));
      progress.follow(pod("n", "p"), "m");
      await vi.waitFor(() => expect(opened[0]?.destroyed).toBe(true), { timeout: 60_000, interval: 1 });
      const isLong = Buffer.concat(line).length > 64 << 10;
      expect(progress.of(pod("n", "p"))).toEqual(isLong ? undefined : { bytes: 1, totalBytes: 2 });
    }),
    { numRuns: 60 },
  );
});
