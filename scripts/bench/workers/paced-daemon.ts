/**
 * A daemon whose speed does not depend on this machine's cores, as that of a GPU does not: it answers at once, or streams
 * `tokens` chunks, one every `everyMs`, each with the time at which it was sent; 0 is as fast as they are taken. Answers name
 * its port. Listens on the address that is its argument. Ends with its standard input.
 */
import { createServer, type ServerResponse } from "node:http";

const [address = "127.0.0.1"] = process.argv.slice(2);
/** Longer than clients keep an unused connection. */
const KEEP_ALIVE_MS = 600_000;

const token = (index: number, created = 1) =>
  `data: {"choices":[{"index":0,"delta":{"content":"token ${index}"},"finish_reason":null}],"created":${created},"id":"x","model":"m"}\n\n`;

const ANSWER = {
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "done" } }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};

const server = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8").on("data", (chunk: string) => {
    body += chunk;
  });
  request.on("end", () => {
    const { stream, tokens = 0, everyMs = 0 } = JSON.parse(body || "{}");
    if (stream !== true) {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ id: String(request.socket.localPort), ...ANSWER }));
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (everyMs > 0) paced(response, tokens, everyMs);
    else flood(response, tokens);
  });
});

function paced(response: ServerResponse, tokens: number, everyMs: number): void {
  let sent = 0;
  const timer = setInterval(() => {
    response.write(token(sent, performance.timeOrigin + performance.now()));
    sent += 1;
    if (sent < tokens) return;
    clearInterval(timer);
    response.end("data: [DONE]\n\n");
  }, everyMs);
  response.once("close", () => clearInterval(timer));
}

function flood(response: ServerResponse, tokens: number, from = 0): void {
  for (let sent = from; sent < tokens; sent += 1) {
    if (response.write(token(sent))) continue;
    response.once("drain", () => flood(response, tokens, sent + 1));
    return;
  }
  response.end("data: [DONE]\n\n");
}

server.keepAliveTimeout = KEEP_ALIVE_MS;
server.listen(0, address, () => {
  const bound = server.address();
  if (typeof bound === "object" && bound !== null) console.log(bound.port);
});
process.stdin.on("end", () => process.exit(0)).resume();
