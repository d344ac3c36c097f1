/** The gate's control socket, for the agent. */
import { once } from "node:events";
import { rmSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { GateProcess } from "./gate-process.ts";

type Handler = (request: IncomingMessage, argument: string) => object | Promise<object>;

/** The folder of the path must be private. Resolves once the socket listens. */
export async function listenForAgent(
  path: string,
  gate: GateProcess,
  handOver: (order: unknown) => Promise<void>,
): Promise<void> {
  const handlers: Readonly<Record<string, Handler>> = {
    "GET status": () => gate.status(),
    "GET metrics": () => gate.counters(),
    "GET drained": async (_, id) => {
      await gate.drained(decodeURIComponent(id));
      return {};
    },
    "POST reload": async () => {
      gate.reload();
      await gate.listen();
      return gate.status();
    },
    "POST handover": async (request) => {
      await handOver(JSON.parse(Buffer.concat(await request.toArray()).toString("utf8")));
      return gate.status();
    },
  };
  const server = createServer((request, response) => {
    const [, verb = "", argument = ""] = (request.url ?? "").split("/");
    const name = `${request.method} ${verb}`;
    const answer = async () => {
      if (!Object.hasOwn(handlers, name)) throw new Error(`no such request: ${name}`);
      return handlers[name]?.(request, argument);
    };
    void answer()
      .catch((error: unknown) => {
        response.statusCode = 500;
        return { error: error instanceof Error ? error.message : String(error) };
      })
      .then((result) => response.end(JSON.stringify(result)));
  });
  rmSync(path, { force: true });
  server.listen(path);
  await once(server, "listening");
}
