/** The gate's control socket, for the agent. */
import { once } from "node:events";
import { rmSync } from "node:fs";
import { createServer } from "node:http";
import { createRoutes, type HttpResponse } from "../../src/http/routes.ts";
import type { GateProcess } from "./gate-process.ts";

/** The folder of the path must be private. Resolves once the socket listens. */
export async function listenForAgent(
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
