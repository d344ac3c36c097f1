/** Services with spec.idle in pods, with an autoscaler, on kwok's nodes: the Deployment gets no replicas, and its own back. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { getCondition } from "../../src/api/conditions.ts";
import { demand } from "../../test/bed/demand.ts";
import { whyNoSimulatedNodes } from "../../test/bed/kwok.ts";
import { scriptAnnotations } from "../../test/bed/kwok-stages.ts";
import {
  type Bench,
  createNamespaceWithCache,
  inferenceService,
  startBench,
} from "../../test/controller/bench.ts";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { priorityClasses } from "./workload/priorities.ts";

const why = whyNoSimulatedNodes();
const WAIT = { timeout: 60_000, interval: 50 };
const NS = "idle-pods";
/** Half of the interval at which the controller reads pods. */
const STEP_MS = 15_000;
/** Of this machine: an endpoint may not be in the loopback range. */
const ADDRESS = Object.values(networkInterfaces())
  .flatMap((addresses) => addresses ?? [])
  .find(({ family, internal }) => family === "IPv4" && !internal)?.address;

describe.skipIf(why !== undefined || ADDRESS === undefined)(
  `idle services in pods (${why ?? "simulated nodes"})`,
  () => {
    const clock = createSteppedClock();
    let bench: Bench;
    let engine: Server;
    /** What every pod answers. Undefined: an error. */
    let inFlight: number | undefined = 0;
    let readings = 0;

    beforeAll(async () => {
      engine = createServer((_, response) => {
        readings += 1;
        response.statusCode = inFlight === undefined ? 503 : 200;
        response.end(`llamacpp:requests_processing ${inFlight}\nllamacpp:requests_deferred 0\n`);
      }).listen(0, ADDRESS);
      await once(engine, "listening");
      bench = await startBench({ nodes: [{ name: "cpu-1" }], clock });
      for (const one of priorityClasses()) await bench.apply(one);
      await createNamespaceWithCache(bench, NS);
      await bench.model(NS, "tiny", { accelerator: "cpu" });
    });
    afterAll(async () => {
      engine?.close();
      await bench?.[Symbol.asyncDispose]();
    });

    const until = (expected: object) =>
      bench.serviceUntil(NS, "chat", ({ status }) => expect(status).toMatchObject(expected));
    /** Lets time pass as the controller reads the pods. */
    const pass = async (seconds: number) => {
      for (let left = seconds * 1_000; left > 0; left -= 2 * STEP_MS) {
        const before = readings;
        for (let step = 0; step < 2; step += 1) clock.advance(STEP_MS);
        // The pods may stop meanwhile, and are not read any more.
        await vi.waitFor(async () => {
          if (readings === before) expect((await bench.objects.get(NS, "pods")).items).toEqual([]);
        }, WAIT);
      }
    };
    test("pods without requests are stopped with their autoscaler, and demand brings both back", async () => {
      const { port } = engine.address() as AddressInfo;
      const metrics = [{ type: "Resource", name: "cpu", targetAverageUtilization: 80 }];
      const spec = {
        replicas: 2,
        containerPort: port,
        podAnnotations: scriptAnnotations({ podIP: ADDRESS ?? "" }),
        idle: { afterMinutes: 2, minimumResidencySeconds: 0 },
        autoscaling: { minReplicas: 2, maxReplicas: 3, metrics },
      };
      await bench.apply(inferenceService(NS, "chat", spec));
      await until({ phase: "Ready", ready: "2/2" });
      const scalersUntil = (count: number) =>
        bench.objects.until(NS, "hpa", (items) => expect(items).toHaveLength(count));
      await scalersUntil(1);

      inFlight = 1;
      await pass(240);
      expect((await bench.service(NS, "chat")).status).toMatchObject({
        phase: "Ready",
        idle: { state: "Awake" },
      });

      inFlight = 0;
      await pass(240);
      const { status } = await until({ phase: "Idle", ready: "0/0", reason: "Idle" });
      expect(getCondition(status?.conditions, "ScalingActive")?.message).toBe("the service is idle");
      await scalersUntil(0);
      expect((await bench.objects.get(NS, "deployment/chat")).spec.replicas).toBe(0);
      expect((await bench.service(NS, "chat")).spec.replicas).toBe(2);

      await Promise.all(Array.from({ length: 5 }, () => demand(bench.client, NS, "chat", clock.nowMs())));
      await until({ phase: "Ready", ready: "2/2", idle: { state: "Awake" } });
      await scalersUntil(1);
    });

    test("pods whose requests cannot be read stay", async () => {
      inFlight = undefined;
      await pass(360);
      await bench.serviceUntil(NS, "chat", ({ status }) =>
        expect(getCondition(status?.conditions, "Idle")?.reason).toBe("UseUnknown"),
      );
      await pass(240);
      await until({ phase: "Ready", ready: "2/2" });
    });
  },
);
