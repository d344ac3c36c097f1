/** The agent's socket to the gate. */
import { once } from "node:events";
import { rmSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { GateProcess } from "./gate-process.ts";

type Verb = (request: IncomingMessage, rest: string) => object | Promise<object>;

/** In a folder that is closed to others. Resolves once it listens. */
export async function listenForAgent(
  path: string,
  gate: GateProcess,
  handOver: (order: unknown) => Promise<void>,
): Promise<void> {
  const verbs: Readonly<Record<string, Verb>> = {
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
      await handOver(JSON.parse(await text(request)));
      return gate.status();
    },
  };
  const server = createServer((request, response) => {
    const [, verb = "", rest = ""] = (request.url ?? "").split("/");
    const name = `${request.method} ${verb}`;
    const answer = async () => {
      if (!Object.hasOwn(verbs, name)) throw new Error(`no such request: ${name}`);
      return verbs[name]?.(request, rest);
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

async function text(request: IncomingMessage): Promise<string> {
  let all = "";
  for await (const chunk of request.setEncoding("utf8")) all += chunk;
  return all;
}
