/** A shared daemon behind the gate: when clients are let in, and how they are kept out before its model goes. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { processPorts, runFolder } from "../../src/supervise/fixtures/run.ts";
import { freePort } from "../../test/bed/ports.ts";
import { until } from "../../test/bed/until.ts";
import { gatePorts } from "../gate/fixtures/process.ts";
import { createGateRoutes } from "../gate/gate-routes.ts";
import { createInstances, ENGINES_FOLDER } from "../instances/instances.ts";
import { withGate } from "./gated-driver.ts";
import { tinyDaemonDriver, tinyModels } from "./testing/tiny-drivers.ts";

async function open() {
  const folder = runFolder();
  const [daemonPort, port] = [await freePort(), await freePort()];
  const ports = gatePorts(folder);
  const { clock, log } = processPorts();
  const instances = createInstances({
    stateDir: folder.root,
    clock,
    log,
    footprintBytes: async () => undefined,
  });
  const routes = createGateRoutes({ ...ports, mayRun: () => false });
  await routes.begin();
  const { gate: _, ...tiny } = { gate: undefined, ...tinyDaemonDriver(instances, daemonPort) };
  const driver = withGate(tiny, { routes, clock });
  const place = { dir: join(folder.root, ENGINES_FOLDER, "one"), log, onChange: () => {} };
  mkdirSync(place.dir, { recursive: true });
  const address = "127.0.0.1";
  const template = { serviceName: "chat", runtime: "ollama" } as Parameters<
    typeof driver.open
  >[1]["template"];
  const launch = { template, modelPath: "", files: [], address, port, record: { uid: "one" } };
  const instance = await driver.open(place, launch);
  await until(() => expect(instance.state().at).toBe("running"));
  return {
    instance,
    driver,
    place,
    routes,
    clock,
    daemonPort,
    url: `http://${address}:${port}/answer/chat`,
    [Symbol.asyncDispose]: async () => {
      instance.killNow();
      await until(() => expect(instance.state().at).toBe("gone"));
      instance.close();
      await routes.settled();
      routes.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}

test("clients get 503 with Retry-After until the engine is proven, also from the next agent", async () => {
  await using bed = await open();
  const status = async () => {
    const answer = await fetch(bed.url);
    return [answer.status, answer.headers.get("retry-after")];
  };
  expect(await status()).toEqual([503, "2"]);
  const trace = (more: object) => ({ port: 0, service: "chat", record: { ...bed.instance.handle, ...more } });
  await bed.driver.adopt(bed.place, trace({}));
  await bed.routes.settled();
  expect(await status()).toEqual([503, "2"]);
  await bed.instance.admitClients?.();
  expect(await status()).toEqual([200, null]);
  expect(await bed.instance.checkRoute?.()).toEqual({
    load: { inFlight: 0, firstTokens: 0, firstTokenSeconds: 0 },
  });
  await bed.driver.adopt(bed.place, trace({ readyAtMs: 1 }));
  await bed.routes.settled();
  expect(await status()).toEqual([200, null]);
});

test("new requests are rejected before the model is unloaded, so that no client reaches the daemon without its model", async () => {
  await using bed = await open();
  await bed.instance.admitClients?.();
  const seen = new Set<number>();
  let isOver = false;
  const client = async () => {
    while (!isOver)
      await fetch(bed.url).then(
        ({ status }) => seen.add(status),
        () => undefined,
      );
  };
  const clients = Array.from({ length: 4 }, client);
  await until(() => expect(seen).toEqual(new Set([200])));
  bed.instance.stopBy(bed.clock.monotonicMs() + 10_000);
  await until(() => expect(bed.instance.state().at).toBe("gone"));
  isOver = true;
  await Promise.all(clients);
  expect([...seen].filter((status) => status !== 200 && status !== 503)).toEqual([]);
  expect(await tinyModels(bed.daemonPort).catch(() => [])).toEqual([]);
});
