/** The gate's process: `node main.ts ROUTES SOCKET RELEASE`, started under a shim by the agent or by the previous gate process. */

import { once } from "node:events";
import { rmSync } from "node:fs";
import { createServer } from "node:http";
import { createRoutes, type HttpResponse } from "../../src/http/routes.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { Log } from "../../src/util/ports.ts";
import { GateProcess } from "./gate-process.ts";
import { type HandoverOrder, notifyServing, receiveSockets, startNextGate } from "./handover.ts";

const [file = "", socket = "", release = ""] = process.argv.slice(2);
const log = lineLog({});
const gate = new GateProcess({ file, release, log });

void serve();

/** No top-level await, because the bundle is CommonJS. A rejection ends the process. */
async function serve(): Promise<void> {
  gate.reload();
  await receiveSockets(gate);
  await gate.listen();
  await listenForAgent(socket, gate, handOver);
  notifyServing();
  log.info({ release, pid: process.pid }, "gate started");
}

let isStopping = false;
process.on("SIGTERM", () => {
  if (isStopping) process.exit(0);
  isStopping = true;
  void gate.leave(true).then(() => process.exit(0));
});

let handedOver: Promise<void> | undefined;

async function handOver(order: unknown): Promise<void> {
  if (handedOver !== undefined) throw new Error("the next gate has already been started");
  const attempt = handOverTo(order as HandoverOrder);
  handedOver = attempt;
  attempt.catch(() => {
    handedOver = undefined;
  });
  return attempt;
}

async function handOverTo(order: HandoverOrder): Promise<void> {
  const sendCounters = await startNextGate(order, gate, { clock: systemClock, log });
  log.info({ dir: order.dir }, "handed over");
  const exit = () => process.exit(0);
  void gate
    .leave(false)
    .then(() => sendCounters(gate.counters()))
    .then(exit, exit);
}

/** Writes lines in pino's format without loading pino. */
function lineLog(bindings: Readonly<Record<string, unknown>>): Log {
  const line = (level: number) => (data: object, message: string) => {
    process.stdout.write(
      `${JSON.stringify({ level, time: Date.now(), ...bindings, ...data, msg: message })}\n`,
    );
  };
  const child = (more: Readonly<Record<string, unknown>>) => lineLog({ ...bindings, ...more });
  return { debug: () => {}, info: line(30), warn: line(40), error: line(50), child };
}

/** Opens the control socket. The folder of the path must be private. Resolves once the socket listens. */
async function listenForAgent(
  path: string,
  gate: GateProcess,
  handOver: (order: unknown) => Promise<void>,
): Promise<void> {
  const done = (body: object): HttpResponse => ({ status: 200, body: { ...body } });
  const handle = createRoutes({
    routes: {
      "/status": () => done(gate.status()),
      "/metrics": () => done(gate.counters()),
      "GET /drained/*": async ({ parameters: [id = ""] }) => {
        await gate.drained(decodeURIComponent(id));
        return done({});
      },
      "POST /reload": async () => {
        gate.reload();
        await gate.listen();
        return done(gate.status());
      },
      "POST /handover": async ({ request }) => {
        await handOver(JSON.parse(Buffer.concat(await request.toArray()).toString("utf8")));
        return done(gate.status());
      },
    },
  });
  const server = createServer(handle);
  rmSync(path, { force: true });
  server.listen(path);
  await once(server, "listening");
}
