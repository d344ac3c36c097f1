/** Pods that answer anything, all at the same time. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { ANNOTATION_IN_FLIGHT, PORT_NAME } from "../../src/api/group.ts";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { serveHttp } from "../../test/bed/http-server.ts";
import { readPodsInFlight } from "./in-flight.ts";

/** No key is needed, so no Secret is read. */
const NO_CLIENT = {} as KubeClient;
const service = inferenceServiceSchema.parse({
  metadata: { name: "chat", namespace: "a" },
  spec: { modelRef: "m" },
});

const podAt = (port: number, number: number): Pod => ({
  metadata: { name: `chat-${number}`, annotations: { [ANNOTATION_IN_FLIGHT]: `/${number} running` } },
  spec: { containers: [{ name: "engine", image: "i", ports: [{ name: PORT_NAME, containerPort: port }] }] },
  status: { podIP: "127.0.0.1" },
});

test("at most 16 pods are queried at the same time, and a response with a line over 64 KiB is unknown", async () => {
  const MAX = 64 * 1024;
  let lengths: readonly number[] = [];
  let most = 0;
  let open = 0;
  await using engine = await serveHttp(({ url = "" }, response) => {
    open += 1;
    most = Math.max(most, open);
    response.once("close", () => {
      open -= 1;
    });
    const number = Number(url.slice(1));
    // Answered once others have had their chance to come, too.
    setImmediate(() => response.end(`${"#".repeat(lengths[number] ?? 0)}\nrunning ${number}\n`));
  });
  const { port } = engine;
  const length = fc.oneof(fc.constant(0), fc.integer({ min: MAX - 2, max: MAX + 2 }), fc.nat(2 * MAX));
  await fc.assert(
    fc.asyncProperty(fc.array(length, { maxLength: 40 }), async (given) => {
      lengths = given;
      const pods = given.map((_, number) => podAt(port, number));
      const expected = given.map((chars, number) => [`chat-${number}`, chars <= MAX ? number : undefined]);
      expect(await readPodsInFlight(NO_CLIENT, service, pods)).toEqual(
        new Map(expected as [string, number][]),
      );
    }),
    { numRuns: 30 },
  );
  expect(most).toBeGreaterThan(1);
  expect(most).toBeLessThanOrEqual(16);
});

test("metrics of megabytes are read for their gauges, up to 4 MiB", async () => {
  const MAX = 4 * 1024 * 1024;
  const row = `${"other".padEnd(62, "x")} 1\n`;
  const gauges = ['running{model="a"} 2\n', 'running{model="b"} 3\n'] as const;
  const rows = Math.floor((MAX - gauges.join("").length) / row.length);
  await using engine = await serveHttp(({ url }, response) => {
    response.end(`${gauges[0]}${row.repeat(url === "/0" ? rows : rows + 1)}${gauges[1]}`);
  });
  const { port } = engine;
  expect(await readPodsInFlight(NO_CLIENT, service, [podAt(port, 0), podAt(port, 1)])).toEqual(
    new Map([
      ["chat-0", 5],
      ["chat-1", undefined],
    ]),
  );
});
