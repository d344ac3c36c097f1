/** The routes of an agent's replicas, on the gate as a process. */
import { once } from "node:events";
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { until } from "../../test/bed/until.ts";
import { gatePorts, prepare } from "./fixtures/process.ts";
import { post } from "./fixtures/route.ts";
import type { GatePorts } from "./gate.ts";
import { createGateRoutes } from "./gate-routes.ts";

function open(ports: GatePorts, mayRun: (id: string) => boolean = () => false) {
  const routes = createGateRoutes({ ...ports, mayRun });
  return Object.assign(routes, { [Symbol.dispose]: () => routes.close() });
}

test("a route is ready once the gate listens on it; a port of another program is an error", async () => {
  await using bed = await prepare();
  using routes = open(gatePorts(bed.folder));
  await routes.begin();
  const { address, port } = bed.route.listen;
  const other = createServer().listen(port, address);
  await once(other, "listening");
  await expect(routes.put(bed.route)).rejects.toMatchObject({ code: "EnginePortTaken" });
  other.close();
  await once(other, "close");
  await routes.remove("replica-1", 5_000);
  await routes.put(bed.route);
  expect((await post(bed.url, {})).status).toBe(200);
});

test("new certificates start no gate for an agent without routes", async () => {
  await using bed = await prepare();
  const ports = gatePorts(bed.folder);
  using routes = open(ports);
  await routes.begin();
  await routes.settled();
  routes.reload();
  await routes.settled();
  expect(existsSync(ports.folder) ? readdirSync(ports.folder) : []).toEqual([]);
});

test("a gate that cannot run is an error of the route", async () => {
  await using bed = await prepare();
  const program = join(bed.folder.root, "gate.mjs");
  writeFileSync(program, "process.exit(3);\n");
  using routes = open(gatePorts(bed.folder, { program }));
  await routes.begin();
  await expect(routes.put(bed.route)).rejects.toMatchObject({ code: "GateUnavailable" });
});

test("a new agent keeps the route of a replica that it could not adopt and that may still run, and drops the others", async () => {
  await using bed = await prepare();
  const first = open(gatePorts(bed.folder));
  await first.begin();
  await first.put(bed.route);
  first.close();
  const careful = open(gatePorts(bed.folder), (id) => id === "replica-1");
  await careful.begin();
  await careful.settled();
  expect((await post(bed.url, {})).status).toBe(200);
  careful.close();
  using last = open(gatePorts(bed.folder));
  await last.begin();
  await last.settled();
  await expect(post(bed.url, {})).rejects.toThrow();
});

test("a failed start of a gate is retried automatically", async () => {
  await using bed = await prepare();
  const ports = gatePorts(bed.folder);
  writeFileSync(ports.folder, "in the way");
  using routes = open(ports);
  await routes.begin();
  await expect(routes.put(bed.route)).rejects.toMatchObject({ code: "GateUnavailable" });
  expect((await routes.check("replica-1")).problem).toBe("the gate does not answer");
  rmSync(ports.folder);
  await until(async () => expect((await post(bed.url, {})).status).toBe(200));
  await until(async () => expect((await routes.check("replica-1")).problem).toBeUndefined());
});

test("the start of an agent does not wait for the upgrade of its gate", async () => {
  await using bed = await prepare();
  const first = open(gatePorts(bed.folder));
  await first.begin();
  await first.put(bed.route);
  first.close();
  const program = join(bed.folder.root, "never-serves.mjs");
  writeFileSync(program, "setInterval(() => {}, 1_000);\n");
  using next = open(gatePorts(bed.folder, { release: "2", program }));
  await next.put(bed.route);
  await next.begin();
  const settled = next.settled().then(() => "upgraded");
  expect(await Promise.race([settled, Promise.resolve("at once")])).toBe("at once");
  expect((await post(bed.url, {})).status).toBe(200);
  // The old gate serves, so nothing is withdrawn.
  await until(async () => expect((await next.check("replica-1")).problem).toBeUndefined());
  // Requests answered meanwhile are no accident of timing: it is still not over.
  expect(await Promise.race([settled, Promise.resolve("under way")])).toBe("under way");
});
