/** What the controller reads of the logs of download pods, whatever is in them and however many there are. */
import { PassThrough, Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import type { KubeConnection } from "../../../src/kube/client/connect.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { createProgress } from "./progress.ts";

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
  const progress = createProgress({
    ...{ connection: { stream } as unknown as Pick<KubeConnection, "stream">, clock: systemClock },
    ...{ log: quietLog, signal: new AbortController().signal, onProgress: () => undefined },
  });
  return { opened, progress };
}

test("of one namespace 8 logs are followed, of all together 64, and one that ends makes room", async () => {
  const shape = fc.array(fc.tuple(fc.integer({ min: 0, max: 20 }), fc.nat()), { maxLength: 300 });
  await fc.assert(
    fc.asyncProperty(shape, async (pods) => {
      const { opened, progress } = follow(() => new PassThrough());
      const wanted = new Map(pods.map(([namespace, uid]) => [`${namespace}-${uid}`, `n${namespace}`]));
      for (const [uid, namespace] of wanted) progress.follow(pod(namespace, uid), "m");
      await setImmediate();
      const counts = [...wanted.values()].reduce(
        (sum, one) => sum.set(one, (sum.get(one) ?? 0) + 1),
        new Map<string, number>(),
      );
      const fair = [...counts.values()].reduce((sum, count) => sum + Math.min(8, count), 0);
      expect(opened.length).toBe(Math.min(64, fair));
      const [first] = wanted;
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

test("a log is read up to 16 MiB, and a line up to 64 KiB", async () => {
  const chunk = Buffer.from('{"bytes":1,"totalBytes":2}\n'.repeat(2_000));
  let given = 0;
  const endless = () =>
    new Readable({
      read() {
        given += chunk.length;
        this.push(chunk);
      },
    });
  const { opened, progress } = follow(endless);
  progress.follow(pod("n", "p"), "m");
  await vi.waitFor(() => expect(opened[0]?.destroyed).toBe(true), { timeout: 60_000 });
  expect(given).toBeLessThan(17 << 20);
  expect(progress.of(pod("n", "p"))).toEqual({ bytes: 1, totalBytes: 2 });

  const oneLine = follow(() =>
    Readable.from([Buffer.alloc(40 << 10, "x"), Buffer.alloc(40 << 10, "x"), chunk]),
  );
  oneLine.progress.follow(pod("n", "p"), "m");
  await vi.waitFor(() => expect(oneLine.opened[0]?.destroyed).toBe(true), { timeout: 60_000 });
  expect(oneLine.progress.of(pod("n", "p"))).toBeUndefined();
});
