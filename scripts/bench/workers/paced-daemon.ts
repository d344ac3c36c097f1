/**
 * A daemon whose speed does not depend on this machine's cores, as that of a GPU does not: it answers at once, or streams
 * `tokens` chunks, one every `everyMs`; 0 is as fast as they are taken. Ends with its standard input.
 */
import { createServer, type ServerResponse } from "node:http";

const token = (index: number) =>
  `data: {"choices":[{"index":0,"delta":{"content":"token ${index}"},"finish_reason":null}],"created":1,"id":"x","model":"m"}\n\n`;

const server = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8").on("data", (chunk: string) => {
    body += chunk;
  });
  request.on("end", () => {
    const { stream, tokens = 0, everyMs = 0 } = JSON.parse(body);
    if (stream !== true) {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ choices: [{ message: { content: "done" } }] }));
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
    response.write(token(sent));
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

server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (typeof address === "object" && address !== null) console.log(address.port);
});
process.stdin.on("end", () => process.exit(0)).resume();
