/** Stands in for the gateway of a synthetic farm, whose services have no engines: lists them, and answers every chat alike. */
import type { ServerResponse } from "node:http";
import { type HttpServer, serveHttp } from "../http-server.ts";
import type { SyntheticFarm } from "./synthetic-farm.ts";

const ANSWER = [
  "A **cordon** keeps new replicas away from a host; those that run there stay.",
  "",
  "1. `kubectl metalbridge cordon mac-04` marks the host.",
  "2. The scheduler skips it from then on.",
  "3. To empty the host as well, drain it: its replicas start elsewhere, and then stop here.",
  "",
  "```",
  "kubectl metalbridge drain mac-04",
  "kubectl metalbridge uncordon mac-04",
  "```",
].join("\n");

export function serveSyntheticGateway({ services }: Pick<SyntheticFarm, "services">): Promise<HttpServer> {
  const data = services.map(({ name, namespace, mode }) => ({
    id: `${namespace}/${name}`,
    object: "model",
    aliases: [],
    service: `${namespace}/${name}`,
    mode,
    state: "ready",
    context_length: 8_192,
  }));
  return serveHttp((request, response) => {
    if (request.url?.startsWith("/v1/chat/completions") === true) return answerChat(response);
    response.setHeader("content-type", "application/json").end(JSON.stringify({ object: "list", data }));
  });
}

function answerChat(response: ServerResponse): void {
  response.setHeader("content-type", "text/event-stream");
  const send = (chunk: object) => response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  for (const content of ANSWER.split(/(?<= )/)) send({ choices: [{ delta: { content } }] });
  send({
    choices: [{ delta: {}, finish_reason: "stop" }],
    usage: { prompt_tokens: 21, completion_tokens: 118 },
    timings: { predicted_per_second: 47.3 },
  });
  response.end("data: [DONE]\n\n");
}
